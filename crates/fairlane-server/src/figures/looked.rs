//! How the queue stands, as text for Prometheus.
//!
//! It is looked up when somebody asks, at most once a second, and for a bounded list of groups: those with the most
//! unfinished jobs among the groups looked at so far. Each look goes through a few pages of groups and the next one goes
//! on from there, so its cost does not grow with them.
//!
//! Invariant: each look is written on a sheet of its own, so that nothing is shown that it did not find: no group that
//! has left the list, and no figure of an engine that does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::{Inspect, Inspected};
use fairlane_core::{GroupId, TypeId};
use fairlane_engine::{Engine, EngineError, observe};
use metrics::{Unit, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tokio::time::{Instant, timeout_at};

use super::ENGINE_UP;

/// How the queue stands is not looked up more often than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look takes no longer than this: Prometheus waits ten seconds unless it is told otherwise.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Pages of groups that one look goes through.
const PAGES: usize = 4;

/// What was found last.
#[derive(Default)]
pub(super) struct Looked {
    at: Option<Instant>,
    text: String,
    /// Unfinished jobs of the groups that are shown.
    shown: BTreeMap<GroupId, u64>,
    /// Where the next look goes on.
    after: Option<GroupId>,
}

/// The figures of one look.
struct Sheet(PrometheusRecorder);

impl Sheet {
    fn new() -> Self {
        let sheet = Self(PrometheusBuilder::new().build_recorder());
        sheet.write(|| {
            observe::describe();
            metrics::describe_gauge!(
                ENGINE_UP,
                Unit::Count,
                "1 while the engine answers and takes changes, else 0."
            );
        });
        sheet
    }

    fn write(&self, set: impl FnOnce()) {
        metrics::with_local_recorder(&self.0, set);
    }
}

impl Looked {
    /// How the queue stands, or stood a moment ago. While the engine does not answer, only that.
    pub async fn text(&mut self, engine: &dyn Engine, takes_changes: bool, groups_max: usize) -> String {
        if self.at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.text = self.look(engine, takes_changes, groups_max).await;
            self.at = Some(Instant::now());
        }
        self.text.clone()
    }

    async fn look(&mut self, engine: &dyn Engine, takes_changes: bool, groups_max: usize) -> String {
        let (sheet, deadline) = (Sheet::new(), Instant::now() + LOOK_WITHIN);
        let whole = timeout_at(deadline, engine.inspect(Inspect::Whole)).await;
        let is_up = match whole {
            Ok(Ok(Inspected::Whole(whole))) => {
                sheet.write(|| observe::gauges(&whole));
                // What cannot be found in time is left out; that commands fail is counted and told by the engine.
                let _ =
                    timeout_at(deadline, self.look_closer(engine, &whole.types, groups_max, &sheet)).await;
                true
            }
            _ => false,
        };
        sheet.write(|| gauge!(ENGINE_UP).set(f64::from(u8::from(is_up && takes_changes))));
        sheet.0.handle().render()
    }

    async fn look_closer(
        &mut self,
        engine: &dyn Engine,
        types: &[TypeId],
        groups_max: usize,
        sheet: &Sheet,
    ) -> Result<(), EngineError> {
        // A user of Redis may not be allowed to ask.
        if let Ok(Some(space)) = engine.space().await {
            sheet.write(|| observe::space_gauges(space));
        }
        for name in types {
            if let Inspected::Type(Some(view)) = engine.inspect(Inspect::Type(name.clone())).await? {
                sheet.write(|| observe::type_gauges(name, &view));
            }
        }
        self.find_groups(engine, groups_max).await?;
        self.show_groups(engine, sheet).await
    }

    /// Goes through the next pages and keeps the groups with the most unfinished jobs.
    async fn find_groups(&mut self, engine: &dyn Engine, most: usize) -> Result<(), EngineError> {
        for _ in 0..PAGES {
            let after = self.after.take();
            let page = engine.inspect(Inspect::Groups { after, limit: LIST_GROUPS_MAX }).await?;
            let Inspected::Groups(lines) = page else { return Ok(()) };
            self.after =
                lines.last().filter(|_| lines.len() == LIST_GROUPS_MAX).map(|line| line.group.clone());
            for line in lines {
                self.shown.insert(line.group, line.backlog + line.in_flight);
            }
            while self.shown.len() > most {
                let least = self.shown.iter().min_by_key(|(_, jobs)| **jobs).map(|(group, _)| group.clone());
                least.and_then(|least| self.shown.remove(&least));
            }
            if self.after.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn show_groups(&mut self, engine: &dyn Engine, sheet: &Sheet) -> Result<(), EngineError> {
        let groups: Vec<GroupId> = self.shown.keys().cloned().collect();
        for group in groups {
            let view = engine.inspect(Inspect::Group(group.clone()));
            let congestion = engine.inspect(Inspect::Congestion(group.clone()));
            match tokio::try_join!(view, congestion)? {
                (Inspected::Group(Some(view)), Inspected::Congestion(Some(congestion)))
                    if view.backlog + view.in_flight > 0 =>
                {
                    self.shown.insert(group.clone(), view.backlog + view.in_flight);
                    sheet.write(|| observe::group_gauges(&group, &view, &congestion));
                }
                _ => {
                    self.shown.remove(&group);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::queue::{Command, Reply};
    use fairlane_engine::{BoxFuture, WalkPage};
    use tokio::sync::mpsc;

    use super::*;

    struct Hung;

    impl Engine for Hung {
        fn name(&self) -> &'static str {
            "hung"
        }

        fn execute(&self, _: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
            Box::pin(std::future::pending())
        }

        fn wait<'a>(&'a self, _: &'a [TypeId], _: Duration) -> BoxFuture<'a, Result<bool, EngineError>> {
            Box::pin(std::future::pending())
        }

        fn walk(&self, _: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_does_not_hold_the_figures_up() {
        let (mut looked, begun) = (Looked::default(), Instant::now());
        let text = looked.text(&Hung, true, 3).await;
        assert!(text.contains(&format!("\n{ENGINE_UP} 0\n")), "{text}");
        assert_eq!(looked.text(&Hung, true, 3).await, text);
        assert!(begun.elapsed() < LOOK_WITHIN + LOOK_EVERY, "the second one is the first one again");
    }
}
