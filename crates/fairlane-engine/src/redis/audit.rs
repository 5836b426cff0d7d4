//! The scan of an audit: it reads pages of at most 500 entries, keeps sets of names in this
//! process, and reports suspects for `audit.lua`.
//!
//! A page of jobs states for each job where it should be, as of one instant. Jobs that should be in
//! a list, or among the ended jobs, are looked up there. The order of reads ensures that a job that
//! does not move is seen: lists before rows and again after them, rows before chunks of ended jobs,
//! lists from their tails.
//!
//! - `audit/lanes.rs`: groups, their lanes and the fair orders; each order is read once.
//! - `audit/counts.rs`: the counts of the queue.
//!
//! The number of commands and entries read grows with the number of groups and jobs, never
//! with their product.

mod counts;
mod lanes;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ::redis::{Cmd, Value};
use fairlane_core::Fence;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::{BulkRef, JobRef, Suspect};
use tokio::sync::mpsc;

use super::RedisEngine;
use super::codec::queue::{bulk_id, group_id, job_id, parse};
use super::codec::{Decoded, text};
use crate::audit::ScanPage;
use crate::engine::EngineError;

/// Entries of one page of names or chunks.
const PAGE: usize = 500;
/// Jobs of one page, fewer because the script looks up each of them in several places.
const JOBS_PAGE: usize = 100;

/// A job on a page.
struct Seen {
    name: String,
    /// Where the job should be: a letter of `locate_job.lua`.
    letter: char,
    /// The number of its bulk action or empty; for a leased job, its type.
    bulk: String,
    /// Bytes of its payload and note.
    bytes: u64,
}

/// The counts from the rows of a group.
#[derive(Default)]
struct Counted {
    backlog: u64,
    waiting: u64,
    bytes: u64,
    /// Jobs that have not ended, by the number of their bulk action.
    unended: BTreeMap<String, u64>,
    /// Jobs that should be in a list and were not seen in one.
    unlisted: HashSet<String>,
    /// Jobs that should be among the ended jobs of their bulk action.
    ended: HashSet<(String, String)>,
}

pub(super) struct Scan<'a> {
    engine: &'a RedisEngine,
    pages: mpsc::Sender<ScanPage>,
    groups: BTreeSet<String>,
    leases: BTreeSet<String>,
    lists: BTreeMap<String, BTreeSet<String>>,
    types: Vec<String>,
    scanned: u64,
    /// Jobs that should be among the finished jobs.
    finished: HashSet<String>,
    /// Members of `aggregating` at the start of the scan.
    takeable: HashSet<String>,
    /// Leased jobs by group; below, by type.
    leased_by_group: HashMap<String, i64>,
    leased_by_type: HashMap<String, i64>,
    /// Groups with lanes, seats or a listing that may be wrong.
    odd_groups: BTreeSet<String>,
    /// Suspects that are collected until they fill one step.
    suspects: Vec<Suspect>,
}

impl<'a> Scan<'a> {
    pub fn new(engine: &'a RedisEngine, pages: mpsc::Sender<ScanPage>) -> Self {
        let (groups, leases, lists, types, finished, takeable) = Default::default();
        let (leased_by_group, leased_by_type, odd_groups, suspects) = Default::default();
        Self {
            engine,
            pages,
            groups,
            leases,
            lists,
            types,
            scanned: 0,
            finished,
            takeable,
            leased_by_group,
            leased_by_type,
            odd_groups,
            suspects,
        }
    }

    pub async fn run(mut self) -> Result<(), EngineError> {
        self.types = self.texts("SMEMBERS", "types", &[]).await?;
        self.takeable.extend(self.texts("ZRANGE", "aggregating", &["0", "-1"]).await?);
        self.read_keys().await?;
        self.scan_places().await?;
        self.scan_lanes().await?;
        for group in self.groups.clone() {
            self.scan_group(&group).await?;
            self.scanned += 1;
            self.progress(vec![]).await;
        }
        let finished = std::mem::take(&mut self.finished);
        let unfiled = self.without_filed("completed", finished).await?;
        self.report_jobs(unfiled).await?;
        let odd_groups = std::mem::take(&mut self.odd_groups);
        let groups = odd_groups.iter().map(|name| group_id(name).map(Suspect::Group));
        let leases = self.leases.iter().map(|batch| parse(batch).map(|batch| Suspect::Lease(Fence(batch))));
        let suspects = groups.chain(leases).collect::<Result<Vec<_>, _>>()?;
        self.report(suspects).await;
        let types = self.odd_types().await?;
        self.report(types).await;
        if self.are_counts_odd().await? {
            self.report(vec![Suspect::Queue]).await;
        }
        let rest = std::mem::take(&mut self.suspects);
        self.progress(rest).await;
        Ok(())
    }

    /// Reads groups, their lists, and leases: from the keys that exist and from the
    /// sets that name them.
    async fn read_keys(&mut self) -> Result<(), EngineError> {
        let mut cursor = Some("0".to_owned());
        while let Some(at) = cursor {
            let (next, keys) = self.page("keys", "", &at, PAGE).await?;
            for key in keys {
                let mut parts = key.split(':');
                match (parts.next(), parts.next(), parts.next()) {
                    (Some("lease"), Some(batch), None) => drop(self.leases.insert(batch.to_owned())),
                    (Some("group"), Some(group), Some(what)) => {
                        self.groups.insert(group.to_owned());
                        if matches!(what, "jobs" | "returned") {
                            self.lists.entry(group.to_owned()).or_default().insert(key.clone());
                        }
                    }
                    _ => {}
                }
            }
            cursor = next;
        }
        for set in ["active-groups", "configured-groups"] {
            self.groups.extend(self.texts("ZRANGE", set, &["0", "-1"]).await?);
        }
        self.leases.extend(self.texts("ZRANGE", "deadlines", &["0", "-1"]).await?);
        Ok(())
    }

    /// Scans the leased, waiting, dead and admitted jobs of all groups.
    async fn scan_places(&mut self) -> Result<(), EngineError> {
        let mut places = vec![
            ("in_flight", String::new(), "H"),
            ("sorted", "non-ready-queue".to_owned(), "W"),
            ("sorted", "failed".to_owned(), "D"),
        ];
        places.extend(self.types.iter().map(|name| ("list", format!("ready-queue:{name}"), "LX")));
        for (source, key, expected) in places {
            let mut cursor = Some("0".to_owned());
            while let Some(at) = cursor {
                let (next, seen) = self.jobs_page(source, &key, &at, JOBS_PAGE).await?;
                if source == "in_flight" {
                    self.count_leased(&seen);
                }
                let odd = seen.into_iter().filter(|seen| !expected.contains(seen.letter));
                self.report_jobs(odd.map(|seen| seen.name)).await?;
                cursor = next;
            }
        }
        Ok(())
    }

    async fn scan_group(&mut self, group: &str) -> Result<(), EngineError> {
        let bulks = self.texts("ZRANGE", &format!("group:{group}:bulks"), &["0", "-1", "WITHSCORES"]).await?;
        let bulks: Vec<(&String, &String)> = bulks.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
        let lists = self.lists_of(group, &bulks).await?;
        let listed = self.scan_lists(&lists).await?;
        let mut counted = self.scan_rows(group, &listed).await?;
        let ready = self.types.iter().map(|name| format!("ready-queue:{name}"));
        let lists: Vec<String> = ready.chain(lists).collect();
        let unlisted = self.without_listed(group, &lists, std::mem::take(&mut counted.unlisted)).await?;
        self.report_jobs(unlisted).await?;
        let mut unfiled = Vec::new();
        for (number, names) in by_bulk(std::mem::take(&mut counted.ended)) {
            let left = self.without_filed(&format!("bulk:{number}:ended"), names).await?;
            unfiled.extend(left.into_iter().map(|id| format!("{group}:{id}")));
        }
        self.report_jobs(unfiled).await?;
        self.compare_counts(group, &bulks, &counted).await
    }

    /// The lists that can contain jobs of a group, except those of admitted jobs.
    async fn lists_of(&self, group: &str, bulks: &[(&String, &String)]) -> Result<Vec<String>, EngineError> {
        let mut lists = self.lists.get(group).cloned().unwrap_or_default();
        for field in self.texts("HKEYS", &format!("group:{group}:meta"), &[]).await? {
            if let Some(place) = field.strip_prefix("lane:") {
                lists.extend(["jobs", "returned"].map(|list| format!("group:{group}:{list}:{place}")));
            }
        }
        lists.extend(bulks.iter().map(|(_, number)| format!("bulk:{number}:held")));
        Ok(lists.into_iter().collect())
    }

    /// The jobs in these lists that belong there. Other jobs, and jobs that occur
    /// twice, are suspects.
    async fn scan_lists(&mut self, lists: &[String]) -> Result<HashSet<String>, EngineError> {
        let mut listed = HashSet::new();
        for key in lists {
            let mut cursor = Some("0".to_owned());
            while let Some(at) = cursor {
                let (next, seen) = self.jobs_page("list", key, &at, JOBS_PAGE).await?;
                let mut odd = Vec::new();
                for Seen { name, letter, .. } in seen {
                    let belongs = matches!(letter, 'L' | 'X');
                    if !listed.insert(name.clone()) || !belongs {
                        odd.push(name);
                    }
                }
                self.report_jobs(odd).await?;
                cursor = next;
            }
        }
        Ok(listed)
    }

    async fn scan_rows(&mut self, group: &str, listed: &HashSet<String>) -> Result<Counted, EngineError> {
        let mut counted = Counted::default();
        let mut cursor = Some("0".to_owned());
        let mut met = HashSet::new();
        while let Some(at) = cursor {
            let (next, seen) = self.jobs_page("rows", group, &at, JOBS_PAGE).await?;
            let mut odd = Vec::new();
            for seen in seen {
                // A scan may return an entry twice.
                if met.insert(seen.name.clone()) && !self.count(seen.letter, &seen, listed, &mut counted) {
                    odd.push(seen.name);
                }
            }
            self.report_jobs(odd).await?;
            cursor = next;
        }
        Ok(counted)
    }

    /// Counts one row; false if it contradicts itself.
    fn count(&mut self, letter: char, seen: &Seen, listed: &HashSet<String>, counted: &mut Counted) -> bool {
        counted.bytes += seen.bytes;
        counted.backlog += u64::from(matches!(letter, 'L' | 'W'));
        counted.waiting += u64::from(letter == 'W');
        if matches!(letter, 'L' | 'W' | 'H') && !seen.bulk.is_empty() {
            *counted.unended.entry(seen.bulk.clone()).or_default() += 1;
        }
        match letter {
            'L' | 'X' if !listed.contains(&seen.name) => drop(counted.unlisted.insert(seen.name.clone())),
            'L' | 'X' | 'H' | 'W' | 'D' => {}
            'C' => drop(self.finished.insert(seen.name.clone())),
            'B' => {
                let id = seen.name.split_once(':').map_or("", |(_, id)| id);
                counted.ended.insert((seen.bulk.clone(), id.to_owned()));
            }
            _ => return false,
        }
        true
    }

    /// The `names` that are in none of these lists. New entries are at the tails, so
    /// most are found soon.
    async fn without_listed(
        &self,
        group: &str,
        lists: &[String],
        mut names: HashSet<String>,
    ) -> Result<HashSet<String>, EngineError> {
        for key in lists {
            let mut offset = 0;
            while !names.is_empty() {
                let members = self.tail_page(key, offset).await?;
                let ends = members.len() < PAGE;
                for member in members {
                    let of_lane = key.starts_with("group:");
                    let name =
                        if of_lane { Some(format!("{group}:{member}")) } else { behind_place(&member) };
                    names.remove(&name.unwrap_or_default());
                }
                offset += PAGE;
                if ends {
                    break;
                }
            }
        }
        Ok(names)
    }

    /// The `names` that are in no chunk of this list.
    async fn without_filed(
        &self,
        key: &str,
        mut names: HashSet<String>,
    ) -> Result<HashSet<String>, EngineError> {
        let mut offset = 0;
        while !names.is_empty() {
            let chunks = self.tail_page(key, offset).await?;
            for name in chunks.iter().flat_map(|chunk| chunk.lines().skip(1)) {
                names.remove(name);
            }
            if chunks.len() < PAGE {
                break;
            }
            offset += PAGE;
        }
        Ok(names)
    }

    /// Reports suspects with counts that differ from those of the scan, and the group itself if
    /// it is conspicuous.
    async fn compare_counts(
        &mut self,
        group: &str,
        bulks: &[(&String, &String)],
        counted: &Counted,
    ) -> Result<(), EngineError> {
        let name = group_id(group)?;
        let odd = self.odd_groups.remove(group);
        let mut suspects: Vec<Suspect> = odd.then(|| Suspect::Group(name.clone())).into_iter().collect();
        let meta =
            self.texts("HMGET", &format!("group:{group}:meta"), &["counts", "run", "stored_bytes"]).await?;
        let backlog = meta[0].split(':').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
        let waiting = meta[1].split(':').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let bytes = meta[2].parse().unwrap_or(0);
        let counted_bytes = (counted.bytes + self.bytes_of_bulks(bulks).await?) as i64;
        let counted_jobs = (counted.backlog as i64, counted.waiting as i64);
        if (backlog, waiting) != counted_jobs || counted_bytes != bytes {
            suspects.push(Suspect::Backlog(name.clone()));
        }
        for (id, number) in bulks {
            let fields = ["state", "aggregated", "total", "succeeded", "failed", "cancelled"];
            let fields = self.texts("HMGET", &format!("bulk:{number}"), &fields).await?;
            let numbers: Vec<i64> = fields[1..].iter().map(|count| count.parse().unwrap_or(0)).collect();
            let (aggregated, left) = (numbers[0] == 1, numbers[1] - numbers[2..].iter().sum::<i64>());
            let dropped_wholly =
                matches!(fields[0].as_str(), "COMPLETED" | "FAILED" | "CANCELLED") && left == 0;
            let to_be_taken = !aggregated && (fields[0] == "AGGREGATING" || dropped_wholly);
            let unended = counted.unended.get(*number).copied().unwrap_or(0) as i64;
            if left != unended || to_be_taken != self.is_takeable(number, to_be_taken).await? {
                suspects.push(Suspect::Bulk(BulkRef { group: name.clone(), id: bulk_id(id)? }));
            }
        }
        self.report(suspects).await;
        Ok(())
    }

    /// Bytes of the payloads and summaries of these bulk actions.
    async fn bytes_of_bulks(&self, bulks: &[(&String, &String)]) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for (_, number) in bulks {
            for field in ["payload", "summary"] {
                bytes += self.number("HSTRLEN", &format!("bulk:{number}"), &[field]).await?;
            }
        }
        Ok(bytes)
    }

    /// Whether a bulk action is available for aggregation. If it is, unexpectedly, it may have
    /// changed since the start of the scan.
    async fn is_takeable(&self, number: &str, expected: bool) -> Result<bool, EngineError> {
        let member = format!("{number:0>16}");
        if self.takeable.contains(&member) == expected {
            return Ok(expected);
        }
        let score = self.texts("ZMSCORE", "aggregating", &[&member]).await?;
        Ok(score.iter().any(|score| !score.is_empty()))
    }

    async fn report_jobs(&mut self, names: impl IntoIterator<Item = String>) -> Result<(), EngineError> {
        let suspects: Vec<Suspect> =
            names.into_iter().map(|name| job_ref(&name).map(Suspect::Job)).collect::<Result<_, _>>()?;
        self.report(suspects).await;
        Ok(())
    }

    /// Collects suspects until they fill one step.
    async fn report(&mut self, suspects: Vec<Suspect>) {
        self.suspects.extend(suspects);
        while self.suspects.len() >= AUDIT_SUSPECTS_MAX {
            let rest = self.suspects.split_off(AUDIT_SUSPECTS_MAX);
            let page = std::mem::replace(&mut self.suspects, rest);
            self.progress(page).await;
        }
    }

    async fn progress(&self, suspects: Vec<Suspect>) {
        let page = ScanPage { suspects, groups_scanned: self.scanned, groups: self.groups.len() as u64 };
        // The receiver is gone once an audit of suspects has failed; that error is
        // reported instead.
        let _ = self.pages.send(page).await;
    }

    async fn page(
        &self,
        source: &str,
        name: &str,
        cursor: &str,
        count: usize,
    ) -> Result<(Option<String>, Vec<String>), EngineError> {
        self.page_of(&["", "page", source, name, cursor, &count.to_string()]).await
    }

    /// A page, by all arguments of its request.
    async fn page_of(&self, words: &[&str]) -> Result<(Option<String>, Vec<String>), EngineError> {
        let arguments: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let engine = self.engine;
        let link = engine.commands.link().await?;
        let page = engine.scripts.run(&link, "audit", &engine.keys.partition(), &arguments).await;
        let page = page.map_err(|error| link.explain(&error))?;
        let mut words = texts_of("audit", page)?.into_iter();
        Ok((words.next().filter(|cursor| !cursor.is_empty()), words.collect()))
    }

    async fn jobs_page(
        &self,
        source: &str,
        name: &str,
        cursor: &str,
        count: usize,
    ) -> Result<(Option<String>, Vec<Seen>), EngineError> {
        let (next, words) = self.page(source, name, cursor, count).await?;
        let seen = words.chunks_exact(4).map(|job| Seen {
            name: job[0].clone(),
            letter: job[1].chars().next().unwrap_or('?'),
            bulk: job[2].clone(),
            bytes: job[3].parse().unwrap_or(0),
        });
        Ok((next, seen.collect()))
    }

    /// A page of a list, counted from its tail.
    async fn tail_page(&self, key: &str, offset: usize) -> Result<Vec<String>, EngineError> {
        let (first, last) = (format!("-{}", offset + PAGE), format!("-{}", offset + 1));
        self.texts("LRANGE", key, &[&first, &last]).await
    }

    /// A command with a number as its reply.
    async fn number(&self, command: &str, key: &str, words: &[&str]) -> Result<u64, EngineError> {
        let mut cmd = Cmd::new();
        cmd.arg(command).arg(format!("{}{key}", self.engine.keys.prefix())).arg(words);
        match self.engine.commands.query(&cmd).await? {
            Value::Int(number) => Ok(number.unsigned_abs()),
            other => Err(EngineError::broken(format!("{command} was answered with {other:?}"))),
        }
    }

    /// A command with texts as its reply; missing values are empty.
    async fn texts(&self, command: &str, key: &str, words: &[&str]) -> Result<Vec<String>, EngineError> {
        let mut cmd = Cmd::new();
        cmd.arg(command).arg(format!("{}{key}", self.engine.keys.prefix())).arg(words);
        texts_of(command, self.engine.commands.query(&cmd).await?)
    }
}

fn texts_of(command: &str, value: Value) -> Decoded<Vec<String>> {
    match value {
        Value::Array(items) | Value::Set(items) => items.into_iter().map(text_if_any).collect(),
        other => Err(EngineError::broken(format!("{command} was answered with {other:?}"))),
    }
}

/// A text, or an empty one for a missing value.
fn text_if_any(value: Value) -> Decoded<String> {
    match value {
        Value::Nil => Ok(String::new()),
        Value::Double(number) => Ok(number.to_string()),
        value => text(value),
    }
}

/// Parses `group:id`.
fn job_ref(name: &str) -> Decoded<JobRef> {
    let (group, id) = name.split_once(':').unwrap_or((name, ""));
    Ok(JobRef { group: group_id(group)?, id: job_id(id)? })
}

/// The name in `level:type:group:id`.
fn behind_place(member: &str) -> Option<String> {
    let mut parts = member.split(':').skip(2);
    Some(format!("{}:{}", parts.next()?, parts.next()?))
}

fn by_bulk(ended: HashSet<(String, String)>) -> BTreeMap<String, HashSet<String>> {
    let mut numbers: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    for (number, id) in ended {
        numbers.entry(number).or_default().insert(id);
    }
    numbers
}
