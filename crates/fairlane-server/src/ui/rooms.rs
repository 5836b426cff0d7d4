//! Waiting rooms: their waiters and active users, and the controls for admission.

use axum::extract::State;
use axum::response::Response;
use fairlane::RoomName;
use fairlane::views::RoomView;
use maud::{Markup, html};
use serde::Deserialize;

use super::customer::unknown_act;
use super::form::{Form, filled};
use super::format::{badge, count, encoded, span};
use super::page::{After, Section, View, see_other};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::{Path, Query};
use crate::problem::{Problem, ProblemKind};

/// Number of waiting rooms on a page.
const PAGE: usize = 50;

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(After { after }): Query<After>,
) -> Result<Response, Problem> {
    let after = after.as_deref().map(RoomName::new).transpose()?;
    let listed = app.fairlane.rooms(after, PAGE).await?;
    let rooms: Vec<RoomView> = listed.rooms.into_iter().map(RoomView::from).collect();
    Ok(view.page(Section::Rooms, "Waiting rooms", html! {
        h1 { "Waiting rooms" }
        section.card id="rooms" data-live {
            @if rooms.is_empty() { p.empty { "There are no waiting rooms. The first user who joins one makes it." } }
            @else {
                div.table tabindex="0" role="region" aria-label="Waiting rooms" {
                    table {
                        thead { tr {
                            th scope="col" { "Room" } th scope="col" { "State" } th.number scope="col" { "Waiting" }
                            th.number scope="col" { "Active" } th.number scope="col" { "At most" } th.number scope="col" { "Admitted/min" }
                        } }
                        tbody { @for room in &rooms { tr {
                            th scope="row" { a href=(view.to(format!("rooms/{}", encoded(&room.room)))) { (room.room) } }
                            td { (standing(room)) }
                            td.number { (count(room.waiting.iter().sum())) }
                            td.number { (count(room.active)) }
                            td.number { (count(room.limits.max_active.into())) }
                            td.number { (count(room.admitted_per_minute)) }
                        } } }
                    }
                }
            }
            (view.next_page("More rooms", "rooms?after=", listed.next))
        }
    }))
}

fn standing(room: &RoomView) -> Markup {
    html! {
        (badge(room.phase, if room.phase == "open" { "good" } else { "calm" }))
        @if let Some(reason) = &room.paused { " " (badge("paused", "warn")) " " (reason) }
    }
}

#[derive(Deserialize)]
pub(super) struct RoomPath {
    room: RoomName,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
) -> Result<Response, Problem> {
    let Some(found) = app.fairlane.room(&room).view().await? else {
        return Err(ProblemKind::NotFound
            .because(format!("there is no waiting room {room}, or it was empty for an hour")));
    };
    let found = RoomView::from(found);
    let title = format!("Waiting room {room}");
    Ok(view.page(Section::Rooms, &title, html! {
        h1 { "Waiting room " (room.to_string()) }
        div id="room" data-live {
            p { (standing(&found)) }
            div.tiles {
                @for (label, value) in [
                    ("Waiting", found.waiting.iter().sum()), ("Active", found.active), ("Admitted per minute", found.admitted_per_minute),
                    ("Joined", found.totals.joined), ("Admitted", found.totals.admitted), ("Left", found.totals.left),
                    ("Expired", found.totals.expired), ("Gone silent", found.totals.silent),
                ] { div.tile { span.label { (label) } strong { (count(value)) } } }
            }
        }
        section.card {
            h2 { "Limits" }
            dl.facts {
                dt { "Active at once" } dd { (count(found.limits.max_active.into())) }
                dt { "Active for" } dd { (span(found.limits.active_ttl_ms)) }
                dt { "Rate" } dd { (found.limits.rate.as_deref().unwrap_or("no limit")) }
            }
            @if view.may(Permission::Operate) { (controls(&view, &room, &found)) }
        }
    }))
}

fn controls(view: &View, room: &RoomName, found: &RoomView) -> Markup {
    let action = view.to(format!("rooms/{}", encoded(room.to_string())));
    html! {
        form.inline method="post" action=(action) {
            @if found.paused.is_some() { button type="submit" name="act" value="resume" { "Resume admission" } }
            @else {
                label for="reason" { "Reason that users see" }
                input id="reason" name="reason" maxlength="200" value="We are pausing admission for a moment.";
                button.danger type="submit" name="act" value="pause" { "Pause admission" }
            }
        }
        form.inline method="post" action=(action) {
            @match found.phase {
                "open" => button.quiet type="submit" name="act" value="close" { "Close: no more users can join" },
                "closed" => button.quiet type="submit" name="act" value="open" { "Open" },
                _ => span.muted { "The pre-queue is opened with its draw, by fairlane room open." },
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Controls {
    #[serde(default)]
    act: String,
    reason: Option<String>,
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
    Form(Controls { act, reason }): Form<Controls>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.room(&room);
    let done = match act.as_str() {
        "pause" => handle
            .pause(filled(reason).as_deref().unwrap_or("paused by an operator"))
            .await
            .map(|()| "paused")?,
        "resume" => handle.resume().await.map(|()| "resumed")?,
        "open" => handle.open().await.map(|()| "opened")?,
        "close" => handle.close().await.map(|()| "closed")?,
        other => return Err(unknown_act(other)),
    };
    Ok(see_other(&view.to(format!("rooms/{}?done={done}", encoded(room.to_string())))))
}
