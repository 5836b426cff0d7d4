//! `set_phase`: opens and closes a room, and begins a pre-queue.

use fairlane_core::limits::{ROOM_DRAW_BYTES_MAX, ROOM_TICKETS};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    closed_room_admits_those_who_wait_and_no_others,
    tickets_order_a_prequeue_and_no_position_is_shown,
    opening_admits_by_ticket_at_once_and_reveals_the_seed,
    users_who_join_after_the_draw_stand_behind_all_tickets,
    frozen_room_takes_no_more_tickets,
    user_without_a_ticket_learns_the_seed_and_has_no_place,
    prequeue_begins_in_an_empty_room_only,
    arguments_out_of_range_are_invalid,
];

fn prequeue() -> NextPhase {
    NextPhase::Prequeue { seed: "secret".into(), commitment: "hash".into() }
}

fn ticket(user: &str, ticket: u64) -> JoinRoom {
    JoinRoom { ticket: Some(ticket), ..joining(user) }
}

fn open() -> NextPhase {
    NextPhase::Open { digest: "digest".into() }
}

async fn closed_room_admits_those_who_wait_and_no_others(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    let closed = PhaseSet::Set { phase: RoomPhase::Closed, active: 1 };
    assert_eq!(rooms.set_phase(NextPhase::Closed).await, closed);
    assert_eq!(rooms.try_join(joining("three")).await, RoomJoined::Refused(RoomRefusal::Closed));
    assert_eq!(position(&rooms.join("two").await), Some(1), "a place is kept");
    rooms.leave_room("one").await;
    assert!(is_active(&rooms.show_place("two").await));
    rooms.set_phase(NextPhase::Open { digest: String::new() }).await;
    assert_eq!(position(&rooms.join("three").await), Some(1));
    assert_eq!(rooms.room().await.draw, None);
}

async fn tickets_order_a_prequeue_and_no_position_is_shown(rooms: Subject) {
    rooms.set_phase(prequeue()).await;
    for (user, number) in [("one", 70), ("two", 5), ("three", ROOM_TICKETS - 1)] {
        let RoomJoined::Joined { status, .. } = rooms.try_join(ticket(user, number)).await else { panic!() };
        assert!(matches!(status.place, PlaceView::Waiting { position: None, eta: None, .. }));
    }
    let order = rooms.places(PlaceListing::Waiting { class: 0 }).await;
    assert_eq!(order, [("two".into(), 5), ("one".into(), 70), ("three".into(), ROOM_TICKETS - 1)]);
    let draw = rooms.room().await.draw.expect("there is a draw");
    assert_eq!((&*draw.commitment, draw.seed, draw.digest), ("hash", None, None), "the seed is secret");
}

async fn opening_admits_by_ticket_at_once_and_reveals_the_seed(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.set_phase(prequeue()).await;
    for (user, number) in [("one", 70), ("two", 5), ("three", 9)] {
        rooms.try_join(ticket(user, number)).await;
    }
    assert_eq!(rooms.admit_waiters().await.admitted, 0);
    assert_eq!(rooms.set_phase(open()).await, PhaseSet::Set { phase: RoomPhase::Open, active: 1 });
    assert!(is_active(&rooms.show_place("two").await));
    assert_eq!(position(&rooms.show_place("three").await), Some(1));
    assert_eq!(position(&rooms.show_place("one").await), Some(2));
    let draw = Draw {
        commitment: "hash".into(),
        seed: Some("secret".into()),
        digest: Some("digest".into()),
        tickets: 3,
    };
    assert_eq!(rooms.room().await.draw, Some(draw.clone()));
    rooms.set_phase(NextPhase::Open { digest: String::new() }).await;
    assert_eq!(rooms.room().await.draw, Some(draw), "opening again changes nothing");
}

async fn users_who_join_after_the_draw_stand_behind_all_tickets(rooms: Subject) {
    rooms.set_max_active(0).await;
    rooms.set_phase(prequeue()).await;
    rooms.try_join(ticket("one", ROOM_TICKETS - 1)).await;
    rooms.set_phase(open()).await;
    rooms.join("two").await;
    let late = rooms.try_join(ticket("three", 1)).await;
    let RoomJoined::Joined { status, .. } = late else { panic!() };
    assert_eq!(position(&status.place), Some(3), "a ticket is not looked at any more");
    assert_eq!(position(&rooms.show_place("two").await), Some(2));
}

async fn frozen_room_takes_no_more_tickets(rooms: Subject) {
    rooms.set_phase(prequeue()).await;
    rooms.try_join(ticket("one", 1)).await;
    let frozen = PhaseSet::Set { phase: RoomPhase::Frozen, active: 0 };
    assert_eq!(rooms.set_phase(NextPhase::Closed).await, frozen);
    assert_eq!(rooms.set_phase(NextPhase::Closed).await, frozen);
    assert_eq!(rooms.try_join(ticket("two", 2)).await, RoomJoined::Refused(RoomRefusal::Closed));
    assert_eq!(rooms.admit_waiters().await.admitted, 0);
    rooms.set_phase(open()).await;
    assert!(is_active(&rooms.show_place("one").await));
}

async fn user_without_a_ticket_learns_the_seed_and_has_no_place(rooms: Subject) {
    rooms.set_phase(prequeue()).await;
    let needed = RoomJoined::TicketNeeded { seed: "secret".into() };
    assert_eq!(rooms.try_join(joining("one")).await, needed);
    assert_eq!(rooms.show_place("one").await, PlaceView::Unknown);
    rooms.try_join(ticket("one", 3)).await;
    let RoomJoined::Joined { .. } = rooms.try_join(joining("one")).await else { panic!("it has a place") };
}

async fn prequeue_begins_in_an_empty_room_only(rooms: Subject) {
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    assert_eq!(rooms.set_phase(prequeue()).await, PhaseSet::NotEmpty);
    rooms.leave_room("two").await;
    let began = PhaseSet::Set { phase: RoomPhase::Prequeue, active: 1 };
    assert_eq!(rooms.set_phase(prequeue()).await, began);
    rooms.try_join(ticket("three", 3)).await;
    assert_eq!(rooms.set_phase(prequeue()).await, began, "a repeated command");
    let other = NextPhase::Prequeue { seed: "other".into(), commitment: "hash".into() };
    assert_eq!(rooms.set_phase(other).await, PhaseSet::NotEmpty);
}

async fn arguments_out_of_range_are_invalid(rooms: Subject) {
    let long = || "x".repeat(ROOM_DRAW_BYTES_MAX + 1);
    for phase in [
        NextPhase::Open { digest: long() },
        NextPhase::Prequeue { seed: long(), commitment: String::new() },
        NextPhase::Prequeue { seed: String::new(), commitment: long() },
    ] {
        let refused = rooms.engine.call(SetPhase { room: room_name("default"), phase }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
