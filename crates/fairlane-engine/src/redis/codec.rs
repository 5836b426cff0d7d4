//! Commands to the arguments of their Lua functions, and replies to values.
//!
//! The first argument is the time. A hot operation has its own form (`codec/queue.rs`,
//! `codec/lock.rs`, `codec/room.rs`); any other is packed into the second argument, and its reply is
//! one packed value. Scripts reply with time spans instead of times of their clock. `now` is that of the caller, so that a worker with a clock that
//! differs from the server's still wakes at the right time.

mod lock;
pub(super) mod queue;
mod room;

use ::redis::Value;
use fairlane_core::{Command, Micros, Reply};
use serde::{Serialize, Serializer};

use super::packed;
use crate::engine::EngineError;

pub(super) type Arguments = Vec<Vec<u8>>;
pub(super) type Decoded<T> = Result<T, EngineError>;

/// The arguments of a command's function; the first is the time, if a test sets it.
pub(super) fn encode(command: &Command, given: Option<Micros>) -> Arguments {
    let mut arguments = vec![given.map_or(Vec::new(), |now| now.0.to_string().into_bytes())];
    let is_hot = command.queue().is_some_and(|command| queue::encode(command, &mut arguments))
        || command.lock().is_some_and(|command| lock::encode(command, &mut arguments))
        || command.room().is_some_and(|command| room::encode(command, &mut arguments));
    if !is_hot {
        arguments.push(packed::pack(&Packed(command)));
    }
    arguments
}

/// The reply to `command`, sent at `now`.
pub(super) fn decode(command: &Command, value: Value, now: Micros) -> Decoded<Reply> {
    let hot = match (command.queue(), command.lock(), command.room()) {
        (Some(command), ..) => queue::decode(command, value, now).map(|reply| reply.map(Reply::from)),
        (_, Some(command), _) => lock::decode(command, value).map(|reply| reply.map(Reply::from)),
        (.., Some(command)) => room::decode(command, value).map(|reply| reply.map(Reply::from)),
        _ => Err(value),
    };
    match hot {
        Ok(reply) => reply,
        Err(Value::BulkString(packed)) => {
            packed::unpack_with(&packed, |deserializer| command.reply_from(deserializer))
        }
        Err(value) => Err(unknown("value", value)),
    }
}

struct Packed<'a>(&'a Command);

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_arguments(serializer)
    }
}

pub(super) fn unknown(what: &str, got: impl std::fmt::Debug) -> EngineError {
    EngineError::broken(format!("a script answered with an unknown {what}: {got:?}"))
}

/// A text reply.
pub(super) fn text(value: Value) -> Decoded<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|error| unknown("text", error)),
        Value::SimpleString(text) => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        other => Err(unknown("text", other)),
    }
}
