//! A ticket shop with two places behind a waiting room: users join, wait, become active and leave, and
//! an edge lets them in by their passes, without a call.
//!
//! Run with `cargo run -p fairlane --example waiting_room`.

use std::time::{SystemTime, UNIX_EPOCH};

use fairlane::{Fairlane, PassKeys, PassOptions, PassVerifier, PlaceView, RoomName, RoomSettings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fairlane = Fairlane::open("memory:").await?; // or "./data", "redis://host:port"
    let room = fairlane.room("concert");
    room.set(RoomSettings { max_active: 2, ..RoomSettings::default() }).await?;

    let mut tokens = Vec::new();
    for user in ["ada", "bob", "cyd", "dan"] {
        let joined = room.join(user).await?;
        match joined.status.place {
            PlaceView::Active { .. } => println!("{user} is active"),
            PlaceView::Waiting { position: Some(at), .. } => println!("{user} waits at position {at}"),
            place => println!("{user}: {place:?}"),
        }
        tokens.push(joined.token);
    }

    // The server signs a pass with each reply about an active place; the edge has its public keys.
    let (keys, name) = (PassKeys::generate()?, RoomName::new("concert")?);
    let edge = PassVerifier::from_jwks(&keys.public_set())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let place = room.keep(&tokens[0]).await?.place;
    let pass = keys.issue(&name, &place, PassOptions::default()).ok_or("ada is active")?;
    println!("the edge lets {} in", edge.verify(&pass.jwt, "concert", now)?.sub);
    assert!(edge.verify(&pass.jwt, "another room", now).is_err());

    room.leave(&tokens[0]).await?;
    room.validate(&tokens[2]).await?;
    println!("ada has left, and cyd has her place");
    Ok(())
}
