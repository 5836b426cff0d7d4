//! The hot operations of waiting rooms: the polls of waiters. `lua/room/views.lua` describes the reply.

use ::redis::Value;
use fairlane_core::room::{Command, Eta, PlaceStatus, PlaceView, Reply};
use fairlane_core::{Micros, PlaceToken, RoomName, UserId};

use super::{Arguments, Decoded, unknown};

/// Adds the arguments of a hot operation; returns whether it is one.
pub(super) fn encode(command: &Command, arguments: &mut Arguments) -> bool {
    let mut add = |room: &RoomName, token: &PlaceToken| {
        arguments.extend([room.escaped().into(), token.escaped().into()]);
    };
    match command {
        Command::ShowPlace(command) => add(&command.room, &command.token),
        Command::KeepPlace(command) => add(&command.room, &command.token),
        _ => return false,
    }
    true
}

/// The reply to a hot operation; the value itself for another operation.
pub(super) fn decode(command: &Command, value: Value) -> Result<Decoded<Reply>, Value> {
    let reply = match command {
        Command::ShowPlace(_) => Reply::ShowPlace,
        Command::KeepPlace(_) => Reply::KeepPlace,
        _ => return Err(value),
    };
    let text = match &value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        _ => None,
    };
    Ok(text.and_then(status).map(reply).ok_or_else(|| unknown("status of a place", value)))
}

fn status(text: &str) -> Option<PlaceStatus> {
    let (state, rest) = text.split_at_checked(1)?;
    let number = |field: &str| field.parse::<u64>().ok();
    // A dash stands for a number that there is not.
    let optional = |field: &str| if field == "-" { Some(None) } else { number(field).map(Some) };
    match state {
        "U" => Some(PlaceStatus { place: PlaceView::Unknown, active: number(rest)? }),
        "A" => {
            let mut fields = rest.splitn(4, ':');
            let (remaining_us, until) = (number(fields.next()?)?, Micros(number(fields.next()?)?));
            let (active, user) = (number(fields.next()?)?, UserId::from_escaped(fields.next()?).ok()?);
            Some(PlaceStatus { place: PlaceView::Active { user, remaining_us, until }, active })
        }
        "W" => {
            let mut fields = rest.splitn(7, ':');
            let (position, waiting) = (optional(fields.next()?)?, number(fields.next()?)?);
            let (least_ms, most_ms) = (optional(fields.next()?)?, optional(fields.next()?)?);
            let eta = least_ms.zip(most_ms).map(|(least_ms, most_ms)| Eta { least_ms, most_ms });
            let (next_poll_ms, active) = (number(fields.next()?)?, number(fields.next()?)?);
            let paused = fields.next().map(str::to_owned);
            let place = PlaceView::Waiting { position, waiting, eta, next_poll_ms, paused };
            Some(PlaceStatus { place, active })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_and_others_are_refused() {
        let waiting = status("W7:9:-:-:1000:50:Back: at noon").unwrap();
        let paused = Some("Back: at noon".to_owned());
        let place =
            PlaceView::Waiting { position: Some(7), waiting: 9, eta: None, next_poll_ms: 1000, paused };
        assert_eq!(waiting, PlaceStatus { place, active: 50 });
        let before = status("W-:9:1:2:1000:0").unwrap().place;
        assert!(matches!(before, PlaceView::Waiting { position: None, eta: Some(_), paused: None, .. }));
        let active = status("A5:1700000000000005:3:a%3Ab").unwrap();
        let user = UserId::new("a:b").unwrap();
        let until = Micros(1_700_000_000_000_005);
        assert_eq!(active.place, PlaceView::Active { user, remaining_us: 5, until });
        assert_eq!(status("U3").unwrap().active, 3);
        for text in ["", "U", "X1", "é", "A5:1:3", "W1:2:3:4:5", "W:2:3:4:5:6", "A5:1:3:", "Ux"] {
            assert_eq!(status(text), None, "{text:?}");
        }
    }
}
