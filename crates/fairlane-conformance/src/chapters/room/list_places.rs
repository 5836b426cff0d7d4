//! `list_places`: the places of a room in order, page by page.

use fairlane_core::limits::{LIST_PLACES_MAX, ROOM_ACTIVE_TTL_MS, ROOM_CLASSES_MAX};
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    waiters_come_page_by_page_in_order,
    active_places_come_by_their_end,
    unknown_room_and_unknown_class_have_no_places,
    page_out_of_range_is_invalid,
];

fn listing(listing: PlaceListing, from: u64, places_max: usize) -> ListPlaces {
    ListPlaces { room: room_name("default"), listing, from, places_max }
}

async fn list(rooms: &Subject, command: ListPlaces) -> (Vec<String>, Option<u64>) {
    let listed = rooms.engine.call(command).await.expect("list_places is answered");
    (listed.places.iter().map(|place| place.user.to_string()).collect(), listed.next)
}

async fn waiters_come_page_by_page_in_order(rooms: Subject) {
    rooms.set_max_active(0).await;
    for user in ["c", "a:", "b"] {
        rooms.join(user).await;
    }
    let waiting = PlaceListing::Waiting { class: 0 };
    assert_eq!(list(&rooms, listing(waiting, 0, 2)).await, (vec!["c".into(), "a:".into()], Some(2)));
    assert_eq!(list(&rooms, listing(waiting, 2, 2)).await, (vec!["b".into()], None));
    assert_eq!(list(&rooms, listing(waiting, 3, 2)).await, (vec![], None));
}

async fn active_places_come_by_their_end(rooms: Subject) {
    rooms.join("one").await;
    rooms.advance_ms(1000);
    rooms.join("two").await;
    rooms.join("three").await;
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS - 1000);
    let active = PlaceListing::Active;
    assert_eq!(list(&rooms, listing(active, 0, 1)).await, (vec!["three".into()], Some(1)));
    assert_eq!(list(&rooms, listing(active, 1, 5)).await, (vec!["two".into()], None), "by token");
    let page = rooms.engine.call(listing(active, 0, 1)).await.expect("list_places is answered");
    assert_eq!((page.places[0].remaining_us, page.places[0].number), (1_000_000, 0));
}

async fn unknown_room_and_unknown_class_have_no_places(rooms: Subject) {
    assert_eq!(list(&rooms, listing(PlaceListing::Active, 0, 5)).await, (vec![], None));
    rooms.join("one").await;
    assert_eq!(list(&rooms, listing(PlaceListing::Waiting { class: 1 }, 0, 5)).await, (vec![], None));
}

async fn page_out_of_range_is_invalid(rooms: Subject) {
    for command in [
        listing(PlaceListing::Active, 0, 0),
        listing(PlaceListing::Active, 0, LIST_PLACES_MAX + 1),
        listing(PlaceListing::Waiting { class: ROOM_CLASSES_MAX as u32 }, 0, 1),
        listing(PlaceListing::Active, u64::MAX, 1),
    ] {
        let refused = rooms.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
