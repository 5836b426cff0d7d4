//! Waiting rooms as an application uses them.

use std::time::Duration;

use fairlane::{
    Error, Fairlane, PassKeys, PassOptions, PlaceToken, PlaceView, RoomError, RoomName, RoomSettings, Seed,
    UserId, verify_draw,
};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

async fn memory() -> Fairlane {
    Fairlane::open("memory:").await.unwrap()
}

async fn with_places(fairlane: &Fairlane, max_active: u32) -> fairlane::Room {
    let room = fairlane.room("concert");
    room.set(RoomSettings { max_active, ..RoomSettings::default() }).await.unwrap();
    room
}

fn room_error(result: Result<impl std::fmt::Debug, Error>) -> RoomError {
    match result {
        Err(Error::Room(error)) => error,
        other => panic!("not refused by the room: {other:?}"),
    }
}

#[tokio::test]
async fn only_an_active_place_is_valid() {
    let room = with_places(&memory().await, 1).await;
    let (ada, bob) = (room.join("ada").await.unwrap(), room.join("bob").await.unwrap());
    assert!(room.validate(&ada.token).await.unwrap() > Duration::from_secs(590));
    assert_eq!(room_error(room.validate(&bob.token).await), RoomError::Waiting { position: Some(1) });
    let unknown = PlaceToken::new("unknown").unwrap();
    assert_eq!(room_error(room.validate(&unknown).await), RoomError::UnknownPlace);
    assert_eq!(room_error(room.leave(&unknown).await), RoomError::UnknownPlace);
    assert_eq!(room.leave(&ada.token).await.unwrap(), 1, "bob is active");
    assert_eq!(room_error(room.validate(&ada.token).await), RoomError::UnknownPlace);
    assert!(room.validate(&bob.token).await.is_ok());
    assert_eq!(room.revoke("bob").await.unwrap(), 0);
    assert_eq!(room_error(room.revoke("bob").await), RoomError::UnknownPlace);
}

#[tokio::test]
async fn limits_change_one_by_one() {
    let room = memory().await.room("concert");
    room.update(|limits| limits.max_active = 7).await.unwrap();
    let limits = room.update(|limits| limits.weights = vec![3, 1]).await.unwrap();
    assert_eq!((limits.max_active, &limits.weights[..]), (7, &[3, 1][..]));
    let refused = room.update(|limits| limits.polls_per_second = 0).await;
    assert!(refused.unwrap_err().to_string().contains("polls of a room"));
    assert_eq!(room.view().await.unwrap().unwrap().settings, limits);
}

/// Draws, opens, and verifies every place.
async fn draw_is_verified(fairlane: &Fairlane, users: usize) {
    let room = with_places(fairlane, 3).await;
    let commitment = room.begin_prequeue().await.unwrap();
    for number in 0..users {
        let joined = room.join(&format!("user {number}")).await.unwrap();
        assert!(matches!(joined.status.place, PlaceView::Waiting { position: None, .. }));
    }
    let mut list = String::new();
    let publish = |line: &fairlane::TicketLine| {
        list.push_str(&format!("{line}\n"));
        Ok(())
    };
    let drawn = room.open_prequeue(publish).await.unwrap();
    let draw = room.view().await.unwrap().unwrap().draw.unwrap();
    assert_eq!((draw.commitment, draw.tickets), (commitment.clone(), users as u64));
    assert_eq!(draw.digest, Some(drawn.digest()));
    let seed = Seed::from(draw.seed.unwrap().as_str());
    for number in [0, users / 2, users - 1] {
        let user = UserId::new(format!("user {number}")).unwrap();
        let verified =
            verify_draw(list.as_bytes(), &seed, &commitment, &drawn.digest(), Some(&user)).unwrap();
        let place = room.join(user.unescaped().as_ref()).await.unwrap().status.place;
        let position = match place {
            PlaceView::Waiting { position, .. } => position.unwrap() + 3,
            PlaceView::Active { .. } => verified.place.unwrap(),
            PlaceView::Unknown => panic!("{user} has a place"),
        };
        assert_eq!(verified.place, Some(position), "as many are in front as the list says");
        assert!(matches!(place, PlaceView::Waiting { .. }) || position <= 3);
    }
    assert_eq!(room_error(room.open_prequeue(|_| Ok(())).await), RoomError::NoPrequeue);
}

#[tokio::test]
async fn draw_of_a_prequeue_is_verified_in_memory() {
    draw_is_verified(&memory().await, 1200).await;
}

#[tokio::test]
async fn draw_of_a_prequeue_is_verified_on_redis() {
    let server = RedisServer::start(ServerOptions::default());
    draw_is_verified(&Fairlane::open(&server.url()).await.unwrap(), 600).await;
}

#[tokio::test]
async fn pass_is_verified_by_another_program_without_a_call() {
    let room = with_places(&memory().await, 1).await;
    let (ada, bob) = (room.join("ada").await.unwrap(), room.join("bob").await.unwrap());
    let (keys, name) = (PassKeys::generate().unwrap(), RoomName::new("concert").unwrap());
    let options = PassOptions::default();
    assert_eq!(keys.issue(&name, &bob.status.place, options), None, "bob waits");
    let pass = keys.issue(&name, &ada.status.place, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let jwks = folder.path().join("jwks.json");
    std::fs::write(&jwks, keys.public_set()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge/verify.mjs");
    let verify = |room: &str, pass: &str| {
        let mut node = std::process::Command::new("node");
        node.arg(script).arg(&jwks).args([room, pass]).output().expect("node runs")
    };
    let accepted = verify("concert", &pass.jwt);
    let claims = String::from_utf8_lossy(&accepted.stdout).into_owned();
    assert!(accepted.status.success() && claims.contains(r#""sub":"ada""#), "{accepted:?}");
    assert!(!verify("other", &pass.jwt).status.success());
    let other = PassKeys::generate().unwrap();
    let foreign = other.issue(&name, &ada.status.place, options).unwrap();
    assert!(!verify("concert", &foreign.jwt).status.success());
}
