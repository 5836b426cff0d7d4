//! `list_rooms`: rooms in the order of their names, page by page.

use fairlane_core::limits::LIST_ROOMS_MAX;
use fairlane_core::room::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![rooms_come_page_by_page_by_name, page_out_of_range_is_invalid];

async fn list(rooms: &Subject, after: Option<&str>, rooms_max: usize) -> (Vec<String>, Option<String>) {
    let command = ListRooms { after: after.map(room_name), rooms_max };
    let listed = rooms.engine.call(command).await.expect("list_rooms is answered");
    let names = listed.rooms.iter().map(|room| room.room.to_string()).collect();
    (names, listed.next.map(|name| name.to_string()))
}

async fn rooms_come_page_by_page_by_name(rooms: Subject) {
    assert_eq!(list(&rooms, None, 10).await, (vec![], None));
    for name in ["b", "a:2", "default", "a"] {
        rooms.try_join(JoinRoom { room: room_name(name), ..joining("one") }).await;
    }
    assert_eq!(list(&rooms, None, 2).await, (vec!["a".into(), "a:2".into()], Some("a:2".into())));
    assert_eq!(list(&rooms, Some("a:2"), 2).await, (vec!["b".into(), "default".into()], None));
    assert_eq!(list(&rooms, Some("b"), 1).await, (vec!["default".into()], None));
}

async fn page_out_of_range_is_invalid(rooms: Subject) {
    for rooms_max in [0, LIST_ROOMS_MAX + 1] {
        let refused = rooms.engine.call(ListRooms { after: None, rooms_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
