//! Trials of waiting rooms.
//!
//! - `rooms/crowd.rs`: many schedulers and users at once. `rooms/order.rs`: users are admitted in order,
//!   and a freed place is taken at once.
//! - `rooms/scale.rs`: the cost of operations with very many waiters. `rooms/draw.rs`: a pre-queue
//!   of very many users, whose draw another program verifies.
//! - `rooms/fire.rs`: processes that are killed, on a Redis that is restarted.
//! - `rooms/command.rs`: `trials rooms …`.

pub mod command;
pub mod crowd;
pub mod draw;
pub mod fire;
pub mod order;
pub mod scale;

use std::sync::Arc;

use fairlane_core::room::JoinRoom;
use fairlane_core::{PlaceToken, RoomName, UserId};
use fairlane_engine::Engine;

/// Joins that are sent at the same time while a room is filled.
const FILLERS: u64 = 64;

fn room() -> RoomName {
    RoomName::new("default").expect("the name is valid")
}

fn token(text: String) -> PlaceToken {
    PlaceToken::new(text).expect("the token is valid")
}

fn user(number: u64) -> UserId {
    UserId::new(format!("user {number}")).expect("the id is valid")
}

fn joining(user: &str, token: PlaceToken) -> JoinRoom {
    let user = UserId::new(user).expect("the id is valid");
    JoinRoom { room: room(), user, token, class: 0, ticket: None }
}

/// Joins users with these numbers, many at a time; `ticket` draws their tickets in a pre-queue.
async fn fill(
    engine: &Arc<dyn Engine>,
    numbers: std::ops::Range<u64>,
    ticket: impl Fn(&UserId) -> Option<u64> + Clone + Send + 'static,
) {
    let fillers = (0..FILLERS).map(|filler| {
        let (engine, numbers, ticket) = (engine.clone(), numbers.clone(), ticket.clone());
        tokio::spawn(async move {
            for number in numbers.filter(|number| number % FILLERS == filler) {
                let user = user(number);
                let ticket = ticket(&user);
                let (room, token) = (room(), token(format!("token {number}")));
                let command = JoinRoom { room, user, token, class: 0, ticket };
                engine.call(command).await.expect("join_room is answered");
            }
        })
    });
    for filler in fillers.collect::<Vec<_>>() {
        filler.await.expect("a filler's task ends");
    }
}
