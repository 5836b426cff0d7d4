//! Groups, their lanes and the fair orders: each group's row is read in a page of groups, each
//! order once, in pages.
//!
//! A page of groups shows the state of their lanes, and a page of an order the groups in it. A
//! contradiction within one page is conspicuous. So is a lane that should be in its order and was
//! not seen there, unless its group has changed in the meantime.

use std::collections::{BTreeMap, HashMap, HashSet};

use fairlane_core::queue::Suspect;

use super::{PAGE, Scan, Seen};
use crate::engine::EngineError;
use crate::redis::codec::queue::type_id;

/// Groups of one page.
const GROUPS_PAGE: usize = 50;

/// A group on a page.
struct GroupSeen {
    name: String,
    /// Whether its row contradicts itself or the lists of its lanes.
    odd: bool,
    in_flight: i64,
    /// The letters of its lanes, by place.
    lanes: BTreeMap<String, char>,
}

/// The groups that should be in each fair order, by place.
type Expected = HashMap<String, HashSet<String>>;

impl Scan<'_> {
    /// Counts leased jobs by group and type. A scan may return an entry twice, which makes its
    /// group a suspect.
    pub(super) fn count_leased(&mut self, seen: &[Seen]) {
        for job in seen {
            let group = job.name.split_once(':').map_or("", |(group, _)| group);
            *self.leased_by_group.entry(group.to_owned()).or_default() += 1;
            *self.leased_by_type.entry(job.bulk.clone()).or_default() += 1;
        }
    }

    /// Finds groups with lanes, seats or a listing that may be wrong.
    pub(super) async fn scan_lanes(&mut self) -> Result<(), EngineError> {
        let names: Vec<String> = self.groups.iter().cloned().collect();
        let mut expected = Expected::new();
        for group in self.groups_seen(&names).await? {
            let leased = self.leased_by_group.get(&group.name).copied().unwrap_or(0);
            if group.odd || group.in_flight != leased || self.has_unknown_list(&group) {
                self.odd_groups.insert(group.name.clone());
            }
            expect(&mut expected, group);
        }
        self.scan_orders(&mut expected).await?;
        let unseen: HashSet<String> = expected.values().flatten().cloned().collect();
        for group in self.groups_seen(&unseen.into_iter().collect::<Vec<_>>()).await? {
            let is_unseen = |place: &String| expected.get(place).is_some_and(|set| set.contains(&group.name));
            if group.lanes.iter().any(|(place, letter)| *letter == 'A' && is_unseen(place)) {
                self.odd_groups.insert(group.name);
            }
        }
        Ok(())
    }

    /// Types with counts that may be wrong.
    pub(super) async fn odd_types(&self) -> Result<Vec<Suspect>, EngineError> {
        let (_, words) = self.page("types", "", "0", PAGE).await?;
        let odd = words.chunks_exact(3).filter(|part| {
            let leased = self.leased_by_type.get(&part[0]).copied().unwrap_or(0);
            part[1] == "?" || part[2].parse() != Ok(leased)
        });
        odd.map(|part| type_id(&part[0]).map(Suspect::Type)).collect()
    }

    /// Whether a group has a list of jobs without a lane.
    fn has_unknown_list(&self, group: &GroupSeen) -> bool {
        let lists = self.lists.get(&group.name).into_iter().flatten();
        let mut places = lists.filter_map(|key| key.splitn(4, ':').nth(3));
        places.any(|place| !group.lanes.contains_key(place))
    }

    /// Removes the groups that are in their order from `expected`; a group that is there wrongly or
    /// twice is conspicuous.
    async fn scan_orders(&mut self, expected: &mut Expected) -> Result<(), EngineError> {
        for type_name in self.types.clone() {
            for level in 0..3 {
                let place = format!("{level}:{type_name}");
                let mut met = HashSet::new();
                let mut cursor = Some("0".to_owned());
                while let Some(at) = cursor {
                    let (next, words) = self.page("order", &place, &at, PAGE).await?;
                    for part in words.chunks_exact(2) {
                        if part[1] != "A" || !met.insert(part[0].clone()) {
                            self.odd_groups.insert(part[0].clone());
                        }
                    }
                    cursor = next;
                }
                if let Some(names) = expected.get_mut(&place) {
                    names.retain(|name| !met.contains(name));
                }
            }
        }
        for source in ["parked", "large"] {
            let mut cursor = Some("0".to_owned());
            while let Some(at) = cursor {
                let (next, names) = self.page(source, "", &at, PAGE).await?;
                self.odd_groups.extend(names);
                cursor = next;
            }
        }
        Ok(())
    }

    async fn groups_seen(&self, names: &[String]) -> Result<Vec<GroupSeen>, EngineError> {
        let mut groups = Vec::with_capacity(names.len());
        let mut rest = names;
        while !rest.is_empty() {
            let page = &rest[..rest.len().min(GROUPS_PAGE)];
            let mut words = vec!["", "page", "groups", "", "0", "0"];
            words.extend(page.iter().map(String::as_str));
            let (next, words) = self.page_of(&words).await?;
            groups.extend(words.chunks_exact(4).map(group_seen));
            let looked_at = next.and_then(|next| next.parse().ok()).unwrap_or(page.len());
            // A page that checked nothing would be read again forever.
            rest = &rest[looked_at.clamp(1, page.len())..];
        }
        Ok(groups)
    }
}

fn group_seen(words: &[String]) -> GroupSeen {
    let lanes = words[3].lines().filter_map(|line| {
        let letter = line.chars().next()?;
        Some((line[letter.len_utf8()..].to_owned(), letter))
    });
    GroupSeen {
        name: words[0].clone(),
        odd: words[1] == "?",
        in_flight: words[2].parse().unwrap_or(-1),
        lanes: lanes.collect(),
    }
}

fn expect(expected: &mut Expected, group: GroupSeen) {
    for (place, letter) in group.lanes {
        if letter == 'A' {
            expected.entry(place).or_default().insert(group.name.clone());
        }
    }
}
