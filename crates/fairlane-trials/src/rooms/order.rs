//! Users join one after another and leave at random, on several connections. The active users must
//! always be the first of the remaining ones, and a freed place must be taken in the step that
//! frees it.

use std::collections::VecDeque;
use std::sync::Arc;

use fairlane_core::room::*;
use fairlane_engine::Engine;

use super::{joining, room, token};

/// Runs the trial on an engine without rooms; returns the number of admissions that were checked,
/// and the violations.
pub async fn run(engine: Arc<dyn Engine>, seed: u64, steps: u64, max_active: u32) -> (u64, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let settings = RoomSettings { max_active, ..RoomSettings::default() };
    engine.call(SetRoom { room: room(), settings }).await.expect("set_room is answered");
    let (mut line, mut joined, mut checked, mut violations) = (VecDeque::new(), 0_u64, 0, Vec::new());
    for _ in 0..steps {
        if line.len() < max_active as usize + 2 || random.bool() {
            let name = format!("user {joined}");
            engine.call(joining(&name, token(name.clone()))).await.expect("join_room is answered");
            line.push_back(name);
            joined += 1;
            continue;
        }
        let leaver = random.usize(..line.len());
        let gone = line.remove(leaver).expect("it was drawn from the line");
        let left = engine.call(LeaveRoom { room: room(), token: token(gone) }).await;
        let left = left.expect("leave_room is answered");
        if left.active != u64::from(max_active) {
            violations.push(format!("{} places are active after a step that freed one", left.active));
        }
        for (at, name) in line.iter().take(max_active as usize + 1).enumerate() {
            let show = ShowPlace { room: room(), token: token(name.clone()) };
            let place = engine.call(show).await.expect("show_place is answered").place;
            let is_right = match place {
                PlaceView::Active { .. } => at < max_active as usize,
                PlaceView::Waiting { position, .. } => at >= max_active as usize && position == Some(1),
                PlaceView::Unknown => false,
            };
            if !is_right {
                violations.push(format!("number {at} of those who are left is {place:?}"));
            }
        }
        checked += 1;
    }
    (checked, violations)
}
