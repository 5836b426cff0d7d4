//! One action on all dead jobs that match a filter. It runs in steps in the background; the pages
//! show its progress and can stop it.
//!
//! Invariant: at most one action runs at a time. An action that was stopped, or that ended with the
//! server, has completed every step it began, and may be started again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairlane::{Dead, DeadCursor, Error};
use fairlane_core::{GroupId, Micros};
use fairlane_engine::Clock;
use fairlane_engine::observe::TARGET;
use maud::{Markup, html};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::chart;
use super::format::{badge, count, counted, time};
use super::page::View;
use crate::access::Permission;
use crate::app::Shared;
use crate::guard::actor;
use crate::problem::{Problem, ProblemKind};

/// Number of dead jobs that a step scans.
const STEP_JOBS: u64 = 500;
/// The pause between two steps, during which other commands run.
const STEP_EVERY: Duration = Duration::from_millis(20);

/// What to do with the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Requeue,
    Discard,
}

impl Act {
    fn past(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Discard => "discarded",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Requeue => "Requeue dead jobs",
            Self::Discard => "Discard dead jobs",
        }
    }
}

/// A request for an action.
pub(super) struct Order {
    pub act: Act,
    pub dead: Dead,
    /// The customer of the filter.
    pub group: Option<GroupId>,
    /// The filter in words.
    pub filter: String,
    /// The id of the key that requests it.
    pub key: Arc<str>,
}

/// The running action, or the last one.
#[derive(Default)]
pub(super) struct DeadActions(Arc<Mutex<Option<Action>>>);

#[derive(Clone)]
struct Action {
    act: Act,
    group: Option<GroupId>,
    filter: String,
    key: Arc<str>,
    began_at: Micros,
    /// Number of dead jobs when it began.
    total: u64,
    /// Number of dead jobs scanned so far.
    looked_at: u64,
    /// Number of jobs requeued or discarded so far.
    done: u64,
    /// Number of jobs that stay dead because their customer or the queue is full.
    full: u64,
    state: State,
    stop: CancellationToken,
}

#[derive(Clone, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    Stopped,
    Failed(String),
}

impl DeadActions {
    /// Starts an action, unless one is running.
    pub async fn start(app: &Shared, order: Order) -> Result<(), Problem> {
        let total = app.fairlane.queue_view().await?.failed;
        let Order { act, dead, group, filter, key } = order;
        let stop = app.stopping.child_token();
        let action = Action {
            act,
            group,
            filter,
            key,
            began_at: Clock::System.now(),
            total,
            looked_at: 0,
            done: 0,
            full: 0,
            state: State::Running,
            stop: stop.clone(),
        };
        let actions = &app.dashboard.dead_actions;
        {
            let mut last = actions.lock();
            if last.as_ref().is_some_and(|last| last.state == State::Running) {
                return Err(ProblemKind::Conflict.because(
                    "another action on dead jobs is running on this server; wait until it has ended, or stop it",
                ));
            }
            *last = Some(action.clone());
        }
        tracing::info!(
            target: TARGET, key = &*action.key, filter = action.filter, "dead jobs are being {}", act.past()
        );
        tokio::spawn(run(app.clone(), action, dead, stop));
        Ok(())
    }

    /// Stops the action after its current step.
    pub fn stop(&self, view: &View) -> Result<(), Problem> {
        match &*self.lock() {
            Some(action) if action.is_for(view) => action.stop.cancel(),
            _ => {
                return Err(
                    ProblemKind::Conflict.because("there is no action that you could stop; reload the page")
                );
            }
        }
        Ok(())
    }

    /// The progress of the running action, or the result of the last one.
    pub fn show(&self, view: &View, path: &str) -> Markup {
        let last = self.lock().clone();
        html! { @if let Some(action) = last.filter(|action| action.is_for(view)) { (action.show(view, path)) } }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Action>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Action)) {
        if let Some(action) = &mut *self.lock() {
            change(action);
        }
    }
}

impl Action {
    /// Whether the caller may see the action. A key that is bound to customers sees actions on one
    /// of them.
    fn is_for(&self, view: &View) -> bool {
        match &self.group {
            Some(group) => view.caller.check_group(group).is_ok(),
            None => view.caller.groups.is_none(),
        }
    }

    /// A sentence about the jobs that are done and the jobs that are left.
    fn sentence(&self) -> String {
        let mut text = format!("{} {}", counted(self.done, "job"), self.act.past());
        if self.full > 0 {
            text += &format!(
                "; {} stay dead, because their customer or the queue is at its limit of unfinished jobs",
                count(self.full)
            );
        }
        let left = self.total.saturating_sub(self.looked_at);
        if self.state != State::Ended && left > 0 {
            text += &format!("; {} not looked at", counted(left, "dead job"));
        }
        text + "."
    }

    fn show(&self, view: &View, path: &str) -> Markup {
        let (word, class) = match &self.state {
            State::Running => ("running", "busy"),
            State::Ended => ("ended", "good"),
            State::Stopped => ("stopped", "warn"),
            State::Failed(_) => ("failed", "bad"),
        };
        html! {
            section.card {
                h2 { (self.act.title()) " " (badge(word, class)) }
                p { (self.sentence()) }
                @if self.state == State::Running {
                    (chart::progress("Dead jobs looked at", self.looked_at.min(self.total), self.total))
                }
                @if let State::Failed(error) = &self.state { p.error { (super::page::sentence(error)) } }
                p.muted { "Concerns " (self.filter) ". Began " (time(self.began_at)) ", by " code { (self.key) } "." }
                @if self.state == State::Running && view.may(Permission::Produce) {
                    form.inline method="post" action=(path) {
                        @if let Some(group) = &self.group { input type="hidden" name="group" value=(group); }
                        button.danger type="submit" name="act" value="stop" { "Stop" }
                        span.muted { "What is done stays done." }
                    }
                }
            }
        }
    }
}

async fn run(app: Shared, action: Action, dead: Dead, stop: CancellationToken) {
    let actions = &app.dashboard.dead_actions;
    let mut cursor: Option<DeadCursor> = None;
    let state = loop {
        match step(action.act, &dead, cursor).await {
            Ok(Step { done, full, next }) => {
                actions.update(|action| {
                    action.done += done;
                    action.full += full;
                    // Jobs that left the list moved the following jobs to lower positions.
                    action.looked_at = next.map_or(action.total, |next| next.position() + action.done);
                });
                match next {
                    Some(_) => cursor = next,
                    None => break State::Ended,
                }
            }
            Err(error) => break State::Failed(error.to_string()),
        }
        if stop.run_until_cancelled(sleep(STEP_EVERY)).await.is_none() {
            break State::Stopped;
        }
    };
    actions.update(|action| action.state = state);
    let last = actions.lock().clone();
    if let Some(action) = last {
        let text = format!("dead jobs ({}): {}", action.filter, action.sentence());
        tracing::info!(target: TARGET, key = &*action.key, done = action.done, "{text}");
    }
}

/// The result of one step.
struct Step {
    done: u64,
    full: u64,
    next: Option<DeadCursor>,
}

async fn step(act: Act, dead: &Dead, cursor: Option<DeadCursor>) -> Result<Step, Error> {
    Ok(match act {
        Act::Requeue => {
            let (counts, next) = dead.requeue_part(cursor, STEP_JOBS).await?;
            Step { done: counts.requeued, full: counts.full, next }
        }
        Act::Discard => {
            let (counts, next) = dead.discard_part(cursor, STEP_JOBS).await?;
            Step { done: counts.discarded, full: 0, next }
        }
    })
}

/// The dead jobs of the queue, without charging a key, because an action outlives its request. The
/// activity log gets one entry of an action for each customer, or one for several together.
pub(super) fn uncharged(app: &Shared) -> Dead {
    app.uncharged.clone().recording(&actor()).dead()
}
