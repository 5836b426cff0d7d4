//! Rankings: boards, the first members of one, and the search for a member.

use axum::extract::State;
use axum::response::Response;
use fairlane::views::{BoardDetailView, BoardView, MemberRankView, RankEntryView, RankPageView};
use fairlane::{BoardName, Standing, WindowKind};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::filled;
use super::format::{count, counted, encoded, span};
use super::page::{After, Section, View};
use crate::app::Shared;
use crate::extract::{Path, Query};
use crate::problem::{Problem, ProblemKind};

/// Number of boards on a page.
const PAGE: usize = 50;
/// Number of members of a board that are shown.
const TOP: usize = 100;
/// Number of members before one that was searched, and on its page.
const AROUND: (u64, usize) = (5, 11);

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let after = after.as_deref().map(BoardName::new).transpose()?;
    let listed = app.fairlane.rankings(after, PAGE).await?;
    let boards: Vec<BoardView> = listed.boards.into_iter().map(BoardView::from).collect();
    Ok(view.page(Section::Rankings, "Rankings", html! {
        h1 { "Rankings" }
        section.card id="rankings" data-live {
            @if boards.is_empty() { p.empty { "There are no boards. An application makes one, or fairlane ranking set." } }
            @else { (boards_table(&view, &boards)) }
            (view.next_page("More boards", "rankings?after=", listed.next))
        }
    }))
}

fn boards_table(view: &View, boards: &[BoardView]) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label="Boards" {
            table {
                thead { tr {
                    th scope="col" { "Board" } th scope="col" { "Rule" } th.number scope="col" { "Season" }
                    th.number scope="col" { "Members" } th.number scope="col" { "Recorded" } th.number scope="col" { "Late" }
                    th.number scope="col" { "Refused" }
                } }
                tbody { @for board in boards { tr {
                    th scope="row" { a href=(view.to(format!("rankings/{}", encoded(&board.board)))) { (board.board) } }
                    td { (board.rule) ", " (board.order) }
                    td.number { (board.season) }
                    td.number { (count(board.members)) }
                    td.number { (count(board.totals.recorded)) }
                    td.number { (count(board.totals.late)) }
                    td.number { (count(board.totals.too_old + board.totals.refused)) }
                } } }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct BoardPath {
    board: BoardName,
}

/// The scores to show, and the member that is searched.
#[derive(Deserialize)]
pub(super) struct Search {
    window: Option<String>,
    season: Option<u64>,
    member: Option<String>,
}

impl Search {
    fn standing(&self) -> Standing {
        let kind = WindowKind::ALL.iter().find(|kind| Some(kind.as_str()) == self.window.as_deref());
        match (kind, self.season) {
            (Some(kind), _) => Standing::Window { kind: *kind, at_ms: None },
            (None, Some(number)) => Standing::Season { number },
            (None, None) => Standing::All,
        }
    }
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Query(search): Query<Search>,
) -> Result<Response, Problem> {
    let ranking = app.fairlane.ranking(&board);
    let Some(found) = ranking.view().await? else {
        return Err(ProblemKind::NotFound.because(format!("there is no board {board}, or it was removed")));
    };
    let found = BoardDetailView::from(found);
    let standing = search.standing();
    let top = RankPageView::from(ranking.page(standing.clone(), 0, TOP).await?);
    let member = filled(search.member.clone());
    let searched = match &member {
        None => None,
        Some(member) => {
            let rank = ranking.rank(standing.clone(), member).await?.map(MemberRankView::from);
            let around = ranking.around(standing, member, AROUND.0, AROUND.1).await?;
            Some((member.as_str(), rank, RankPageView::from(around)))
        }
    };
    let title = format!("Board {board}");
    let action = view.to(format!("rankings/{}", encoded(board.to_string())));
    Ok(view.page(Section::Rankings, &title, html! {
        h1 { "Board " (board.to_string()) }
        p.lead { (found.board.rule) ", " (found.board.order) ", season " (found.board.season) ". Events count once for " (span(found.board.horizon_ms)) "." }
        div id="board" data-live { (tiles(&found)) }
        (standings(&action, &found, &search))
        form.filter role="search" method="get" action=(action) {
            @if let Some(window) = &search.window { input type="hidden" name="window" value=(window); }
            @if let Some(season) = search.season { input type="hidden" name="season" value=(season); }
            label for="member" { "Member" }
            input id="member" name="member" type="search" value=[member.as_deref()] maxlength="128" data-focus;
            button type="submit" { "Find" }
        }
        @if let Some((member, rank, around)) = &searched { (member_card(member, rank.as_ref(), around)) }
        section.card id="top" data-live {
            h2 { "First " (counted(top.entries.len() as u64, "member")) " of " (count(top.members)) }
            @if top.entries.is_empty() { p.empty { "This standing has no members." } } @else { (entries("First members", &top.entries, member.as_deref())) }
        }
    }))
}

fn tiles(found: &BoardDetailView) -> Markup {
    let (board, totals) = (&found.board, found.board.totals);
    html! {
        div.tiles {
            @for (label, value) in [
                ("Members", board.members), ("Recorded", totals.recorded), ("Cancelled", totals.cancelled),
                ("Repeated", totals.repeated), ("Late", totals.late), ("Too old", totals.too_old),
                ("Refused", totals.refused), ("Events remembered", board.events),
            ] { div.tile { span.label { (label) } strong { (count(value)) } } }
        }
    }
}

/// Links to the current season, the windows and the closed seasons.
fn standings(action: &str, found: &BoardDetailView, search: &Search) -> Markup {
    let is_all = search.window.is_none() && search.season.is_none();
    html! {
        nav.pager aria-label="Standings" {
            a.button.quiet href=(action) aria-current=[is_all.then_some("page")] { "Current season" }
            @for window in &found.board.windows {
                a.button.quiet href={ (action) "?window=" (window) } aria-current=[(search.window.as_deref() == Some(window)).then_some("page")] { "This " (window) }
            }
            @for season in found.seasons.iter().rev() {
                a.button.quiet href={ (action) "?season=" (season.season) } aria-current=[(search.season == Some(season.season)).then_some("page")] { "Season " (season.season) }
            }
        }
    }
}

fn member_card(member: &str, rank: Option<&MemberRankView>, around: &RankPageView) -> Markup {
    html! {
        section.card id="found" data-live {
            h2 { (member) }
            @match rank {
                None => p.empty { "This member is not in this standing." },
                Some(rank) => {
                    p { "Rank " b { (count(rank.entry.rank)) } " of " (count(rank.members)) ", score " b { (rank.entry.score.to_string()) } ", ahead of or level with " (format!("{:.1}", rank.percentile)) " % of all." }
                    (entries("Neighbours", &around.entries, Some(member)))
                }
            }
        }
    }
}

fn entries(label: &str, entries: &[RankEntryView], member: Option<&str>) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr {
                    th.number scope="col" { "Rank" } th scope="col" { "Member" } th.number scope="col" { "Score" } th scope="col" { "Reached" }
                } }
                tbody { @for entry in entries { tr {
                    td.number { (count(entry.rank)) }
                    th scope="row" { @if member == Some(&entry.member) { strong { (entry.member) } } @else { (entry.member) } }
                    td.number { (entry.score.to_string()) }
                    td { @if let Some(at) = &entry.reached_at { time datetime=(at) { (at) } } @else { "–" } }
                } } }
            }
        }
    }
}
