//! The hot operations of locks: acquire and release. Their arguments are a flat list, and so is the
//! reply to a caller that holds the lock. The header of each Lua file describes them.

use ::redis::Value;
use fairlane_core::Fence;
use fairlane_core::lock::{AcquireLock, Command, LockAcquired, LockMode, LockReleased, Reply};

use super::{Arguments, Decoded, unknown};

/// Adds the arguments of a hot operation; returns whether it is one.
pub(super) fn encode(command: &Command, arguments: &mut Arguments) -> bool {
    match command {
        Command::AcquireLock(command) => acquire(command, arguments),
        Command::ReleaseLock(command) => {
            arguments.extend([command.name.as_str().into(), command.token.escaped().into()]);
        }
        _ => return false,
    }
    true
}

/// The reply to a hot operation; the value itself for another operation, and for one that is packed.
pub(super) fn decode(command: &Command, value: Value) -> Result<Decoded<Reply>, Value> {
    match (command, &value) {
        (Command::AcquireLock(_), Value::BulkString(text)) => match held(text) {
            Some(held) => Ok(Ok(Reply::AcquireLock(held))),
            None => Err(value),
        },
        (Command::ReleaseLock(_), _) => Ok(released(&value).map(Reply::ReleaseLock)),
        _ => Err(value),
    }
}

fn acquire(command: &AcquireLock, arguments: &mut Arguments) {
    let decimal = |number: u64| number.to_string().into_bytes();
    let mode = match command.mode {
        LockMode::Permit { of } => format!("semaphore/{of}").into_bytes(),
        mode => mode.as_str().into(),
    };
    arguments.extend([
        command.name.as_str().into(),
        command.token.escaped().into(),
        command.process.escaped().into(),
        command.holder.escaped().into(),
        mode,
        decimal(command.ttl_ms),
        decimal(command.lock_delay_ms),
        decimal(command.max_hold_ms.unwrap_or_default()),
        decimal(u64::from(command.wait) + 2 * u64::from(command.fair)),
    ]);
}

/// The grant in `fence:remaining_us`. A packed reply begins with a byte that is no digit.
fn held(text: &[u8]) -> Option<LockAcquired> {
    let (fence, remaining_us) = str::from_utf8(text).ok()?.split_once(':')?;
    Some(LockAcquired::Held { fence: Fence(fence.parse().ok()?), remaining_us: remaining_us.parse().ok()? })
}

fn released(value: &Value) -> Decoded<LockReleased> {
    match value {
        Value::BulkString(letter) => match letter.as_slice() {
            b"R" => Ok(LockReleased::Released),
            b"W" => Ok(LockReleased::Withdrawn),
            b"N" => Ok(LockReleased::NotHeld),
            _ => Err(unknown("release", value)),
        },
        _ => Err(unknown("release", value)),
    }
}
