//! Searches for jobs whose payload contains a text. It reads a bounded number of jobs, and the page
//! shows how many and a link to continue.

use fairlane::{JobView, ListJobs, Listing};
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::{GroupId, TypeId};
use maud::{Markup, html};

use super::format::{count, counted, job_state, time};
use super::page::View;
use crate::app::Shared;
use crate::problem::Problem;

/// Most jobs whose payloads are read.
const SEARCHED_MAX: usize = 250;
/// Most bytes of payloads that are read; the last payload may exceed them.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most pages of the engine that are read: a filter may drop all jobs of a page.
const PAGES_MAX: usize = 20;
/// Number of characters shown before and after a match.
const AROUND: usize = 40;

/// Where a search continues: a place among those that are searched, and a cursor in it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct From {
    pub place: usize,
    pub cursor: u64,
}

/// The parameters of a search.
pub(super) struct Search<'a> {
    pub text: &'a str,
    pub places: Vec<Listing>,
    pub group: Option<GroupId>,
    pub type_id: Option<TypeId>,
    pub from: From,
}

/// The result of one search.
pub(super) struct Found {
    jobs: Vec<(JobView, Excerpt)>,
    searched: usize,
    pub next: Option<From>,
}

/// A match with the text around it.
#[derive(Debug, PartialEq, Eq)]
struct Excerpt {
    before: String,
    matched: String,
    after: String,
}

impl Search<'_> {
    pub async fn run(self, app: &Shared) -> Result<Found, Problem> {
        let (mut found, mut searched, mut bytes) = (Vec::new(), 0, 0);
        let mut from = self.from;
        for _ in 0..PAGES_MAX {
            let room = SEARCHED_MAX.saturating_sub(searched).min(LIST_JOBS_MAX);
            let Some(listing) = self.places.get(from.place).filter(|_| room > 0 && bytes < BYTES_MAX) else {
                break;
            };
            let page = ListJobs {
                listing: listing.clone(),
                group: self.group.clone(),
                type_id: self.type_id.clone(),
                cursor: from.cursor,
                limit: room,
            };
            let listed = app.fairlane.jobs(page).await?;
            for line in listed.jobs {
                searched += 1;
                // A job may have been removed since it was listed.
                let Some(job) = app.fairlane.job(&line.job.group, &line.job.id).view().await? else {
                    continue;
                };
                bytes += job.payload.len();
                if let Some(excerpt) = excerpt(&job.payload, self.text) {
                    found.push((job, excerpt));
                }
            }
            from = match listed.next {
                Some(cursor) => From { cursor, ..from },
                None => From { place: from.place + 1, cursor: 0 },
            };
        }
        let next = (from.place < self.places.len()).then_some(from);
        Ok(Found { jobs: found, searched, next })
    }
}

/// The first match in a payload, without regard to upper and lower case.
fn excerpt(payload: &[u8], text: &str) -> Option<Excerpt> {
    let payload = String::from_utf8_lossy(payload);
    let characters: Vec<char> = payload.chars().collect();
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let is_equal = |one: char, wanted: char| one == wanted || one.to_lowercase().eq([wanted]);
    let at = characters
        .windows(wanted.len().max(1))
        .position(|window| window.iter().zip(&wanted).all(|(one, wanted)| is_equal(*one, *wanted)))?;
    let end = at + wanted.len();
    let start = at.saturating_sub(AROUND);
    let stop = (end + AROUND).min(characters.len());
    let part = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
    Some(Excerpt {
        before: if start > 0 { format!("…{}", part(start, at)) } else { part(start, at) },
        matched: part(at, end),
        after: if stop < characters.len() { format!("{}…", part(end, stop)) } else { part(end, stop) },
    })
}

impl Found {
    /// The result as part of a page; `more` is the address that continues the search.
    pub fn show(&self, view: &View, text: &str, more: Option<String>) -> Markup {
        html! {
            p {
                "Searched " b { (counted(self.searched as u64, "job")) } ": " (count(self.jobs.len() as u64)) @if self.jobs.len() == 1 { " contains " } @else { " contain " } code { (text) } "."
                @if more.is_some() { " There are more jobs to search." }
            }
            @if !self.jobs.is_empty() {
                div.table tabindex="0" role="region" aria-label="Jobs that were found" {
                    table {
                        thead { tr {
                            th scope="col" { "Job" } th scope="col" { "Customer" } th scope="col" { "Type" } th scope="col" { "State" }
                            th scope="col" { "Enqueued" } th scope="col" { "In the payload" }
                        } }
                        tbody { @for (job, excerpt) in &self.jobs { tr {
                            th scope="row" { (view.job(&job.job)) }
                            td { (view.customer(&job.job.group)) }
                            td { (view.job_type(&job.type_id)) }
                            td { (job_state(job.state)) }
                            td { (time(job.created_at)) }
                            td { code { (excerpt.before) mark { (excerpt.matched) } (excerpt.after) } }
                        } } }
                    }
                }
            }
            @if let Some(more) = more {
                nav.pager aria-label="More jobs" { a.button href=(more) rel="next" { "Search the next " (count(SEARCHED_MAX as u64)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_shown_with_what_is_around_it() {
        let found = excerpt(b"{\"to\": \"Ada@Example.com\"}", "ada@").unwrap();
        let expected =
            Excerpt { before: "{\"to\": \"".into(), matched: "Ada@".into(), after: "Example.com\"}".into() };
        assert_eq!(found, expected);
        let long = format!("{}x{}", "a".repeat(100), "b".repeat(100));
        let found = excerpt(long.as_bytes(), "X").unwrap();
        assert_eq!((found.before.chars().count(), found.after.chars().count()), (AROUND + 1, AROUND + 1));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(excerpt(b"", "x"), None);
        assert_eq!(excerpt(b"short", "longer than the payload"), None);
        assert_eq!(excerpt(&[0xff, 0xfe, b'o', b'k'], "OK").unwrap().matched, "ok");
        assert_eq!(excerpt("Straße İ".as_bytes(), "STRA").unwrap().matched, "Stra");
    }
}
