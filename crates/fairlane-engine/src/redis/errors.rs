//! The meaning of each Redis error: one table, from the error to the reaction of the engine.
//!
//! An error that passes by itself, or once an operator has acted, is [`EngineError::Unavailable`]:
//! the caller repeats the command. Errors of the wrong server also end the connection, so that the
//! next command resolves the name and connects again. An error that is not in the table is
//! [`EngineError::Broken`].

use std::error::Error;
use std::io;
use std::sync::Arc;

use ::redis::{ErrorKind, RedisError};
use rustls::{AlertDescription, CertificateError};

use crate::engine::EngineError;

/// How the table recognises an error.
enum Sign {
    /// The first word of the server's message.
    Code(&'static str),
    /// Part of the server's message, for errors without a code of their own.
    Text(&'static str),
}

/// The reaction of the engine to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Transient: the command is repeated until it succeeds.
    Wait,
    /// The address or the user is wrong. Before the engine has executed its first command,
    /// the address is refused; later the error is transient, because an operator is changing
    /// users or servers.
    Access,
    /// The store cannot execute the command in its current state.
    Refuse,
}

/// What happens to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Keep,
    /// Connect again: this is the wrong server, or no server.
    Replace,
}

struct Row(Sign, Class, Link, &'static str);

use Class::{Access, Refuse, Wait};
use Link::{Keep, Replace};
use Sign::{Code, Text};

const TABLE: &[Row] = &[
    Row(Code("READONLY"), Wait, Replace, "it is a read-only replica; name its primary in the address"),
    Row(Code("MASTERDOWN"), Wait, Replace, "it is a replica without its primary"),
    Row(Code("UNBLOCKED"), Wait, Replace, "it has become a replica"),
    Row(Code("REDIRECT"), Wait, Replace, "another server is the primary now"),
    Row(Code("LOADING"), Wait, Keep, "it is loading its data"),
    Row(Code("NOREPLICAS"), Wait, Keep, "it has fewer replicas than min-replicas-to-write asks for"),
    Row(Code("MISCONF"), Wait, Keep, "it cannot save to disk: look at its log and its disk"),
    Row(Code("BUSY"), Wait, Keep, "it is running a long script of another program"),
    Row(Code("CLUSTERDOWN"), Wait, Keep, "the cluster does not serve this slot"),
    Row(Code("TRYAGAIN"), Wait, Keep, "a slot of the cluster is being moved"),
    Row(Code("MOVED"), Wait, Keep, "the slot is on another node; write redis+cluster:// for a cluster"),
    Row(Code("ASK"), Wait, Keep, "a slot of the cluster is being moved"),
    Row(
        Text("cluster support disabled"),
        Access,
        Replace,
        "this Redis is not a node of a cluster; write redis:// instead of redis+cluster://",
    ),
    Row(Text("max number of clients"), Wait, Replace, "raise its maxclients, or close other connections"),
    Row(
        Code("NOAUTH"),
        Access,
        Replace,
        "Redis requires a password, and the address has none; write redis://:password@host:port, or \
         redis://user:password@host:port",
    ),
    Row(Code("WRONGPASS"), Access, Replace, WRONG_PASSWORD),
    Row(
        Code("DENIED"),
        Access,
        Replace,
        "Redis is in protected mode: set a password, or bind it to this host",
    ),
    Row(Code("NOPERM"), Access, Keep, PERMISSION),
    Row(Text("The user executing the script can't"), Access, Keep, PERMISSION),
    Row(Text("Unknown Redis command called from script"), Access, Keep, "a command was renamed or disabled"),
    Row(
        Code("OOM"),
        Refuse,
        Keep,
        "Redis is out of memory: enqueues are refused, draining goes on; raise maxmemory, shorten retention or \
         let workers catch up",
    ),
];

const REFUSED: &str = "connection refused";
const WRONG_PASSWORD: &str = "Redis did not accept the password or user in the address";
const PERMISSION: &str = "the Redis user lacks a permission";
const NOT_REDIS: &str = "the server at this address is not Redis, or this is its TLS port (rediss://)";

/// Whether the engine has executed a command before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    First,
    Later,
}

pub(super) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: "redis", reason: reason.into() }
}

/// The meaning of a Redis error for the caller.
pub(super) fn explain(error: &RedisError, stage: Stage) -> EngineError {
    if let Some(Row(_, class, _, advice)) = row_of(error) {
        return match class {
            Wait => unavailable(format!("{advice} ({error})")),
            Access => access(access_reason(advice, error), stage),
            Refuse => EngineError::refused(*advice),
        };
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => access(format!("{WRONG_PASSWORD} ({error})"), stage),
        // The message of the client library has several lines about bytes.
        ErrorKind::Parse => access(NOT_REDIS.to_owned(), stage),
        _ if error.to_string().contains("Parse error") => access(NOT_REDIS.to_owned(), stage),
        ErrorKind::InvalidClientConfig => EngineError::refused(error.to_string()),
        _ if tls_error(error).is_some() => access(tls_advice(error), stage),
        _ if error.is_connection_refusal() => unavailable(REFUSED),
        _ if let Some(cause) = cluster_cause(error) => match cause.as_str() {
            cause if cause.starts_with("Password authentication failed") => {
                access(WRONG_PASSWORD.into(), stage)
            }
            cause if cause.starts_with("Connection refused") => unavailable(REFUSED),
            cause => unavailable(cause),
        },
        _ if error.is_connection_dropped() && stage == Stage::First => unavailable(format!(
            "{error} (a port that closes every connection may be a TLS port, rediss://, or of something else)"
        )),
        _ if is_connection_error(error) => unavailable(error.to_string()),
        _ => EngineError::broken(format!("Redis answered with an error: {error}")),
    }
}

/// The cause of a failed connection to every node of a cluster. The client library reports it as text
/// only, behind its own words.
fn cluster_cause(error: &RedisError) -> Option<String> {
    let text = error.to_string();
    let (_, cause) = text.split_once("Failed to create initial connections")?;
    Some(cause.trim_start_matches(" - ").trim_start_matches("Io: ").to_owned())
}

/// Whether the connection must be replaced. An error of a script says nothing about the server.
pub(super) fn replaces_link(error: &RedisError) -> bool {
    match row_of(error) {
        Some(Row(_, _, link, _)) => *link == Replace,
        None => {
            is_connection_error(error)
                || matches!(error.kind(), ErrorKind::Parse | ErrorKind::AuthenticationFailed)
        }
    }
}

/// Whether an operation failed after it had begun: what it wrote before stays.
pub(super) fn is_midway(error: &RedisError) -> bool {
    let text = error.to_string();
    let is_inside = text.contains("on @user_function:") || text.contains("on @user_script:");
    // An operation checks the layout before its first write.
    error.code() != Some("LAYOUT") && is_inside || text.contains("Error running script")
}

/// Whether a permission is missing, so that the permissions have to be probed again.
pub(super) fn is_permission(error: &RedisError) -> bool {
    row_of(error).is_some_and(|Row(sign, ..)| {
        matches!(sign, Code("NOPERM") | Text("The user executing the script can't"))
            || matches!(sign, Text("Unknown Redis command called from script"))
    })
}

fn row_of(error: &RedisError) -> Option<&'static Row> {
    TABLE.iter().find(|Row(sign, ..)| match sign {
        Code(code) => error.code() == Some(code),
        Text(text) => error.code().is_some() && error.to_string().contains(text),
    })
}

/// The error for a wrong address or user.
pub(super) fn access(reason: String, stage: Stage) -> EngineError {
    match stage {
        Stage::First => EngineError::refused(reason),
        Stage::Later => unavailable(reason),
    }
}

/// The advice, with the server's message if that names the command.
fn access_reason(advice: &str, error: &RedisError) -> String {
    match error.code() {
        Some("NOAUTH") => advice.to_owned(),
        _ => format!("{advice} ({error})"),
    }
}

fn is_connection_error(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::ClusterConnectionNotFound)
        || error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
}

/// The TLS error behind a Redis error.
fn tls_error(error: &RedisError) -> Option<&rustls::Error> {
    // The client library keeps its cause behind an Arc, and an I/O error does not expose its
    // own as a source.
    let cause = error.source()?;
    let cause: &(dyn Error + 'static) = match cause.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(shared) => &**shared,
        None => cause,
    };
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.and_then(|inner| inner.downcast_ref()).or_else(|| cause.downcast_ref())
}

/// The advice for a TLS error.
fn tls_advice(error: &RedisError) -> String {
    let Some(tls) = tls_error(error) else { return error.to_string() };
    let advice = match tls {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the server's certificate comes from a CA that is not trusted here; name its CA with ?ca=FILE",
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the server's certificate has expired; renew it, or set the clock of this machine",
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the server's certificate is not valid yet; set the clock of this machine",
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the server's certificate is for another name; use that name in the address",
        rustls::Error::InvalidCertificate(_) => "the server's certificate is not accepted",
        rustls::Error::InvalidMessage(_) => {
            "this port does not speak TLS; name the TLS port, or write redis://"
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown,
        ) => {
            "the server does not accept this client's certificate; name one it trusts with \
             ?cert=FILE&key=FILE"
        }
        _ => "TLS could not be agreed on",
    };
    format!("{advice} ({tls})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line as the client library does.
    fn answered(line: &str) -> RedisError {
        let value =
            ::redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("a line of the protocol");
        value.extract_error().expect_err("an error")
    }

    fn meaning(line: &str) -> (EngineError, bool) {
        let error = answered(line);
        (explain(&error, Stage::Later), replaces_link(&error))
    }

    #[test]
    fn transient_errors_are_retryable() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "NOREPLICAS Not enough good replicas to write.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN The cluster is down",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "ERR max number of clients reached",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "ERR The user executing the script can't run this command or subcommand script: 5, on @user_script:2.",
        ] {
            let (error, _) = meaning(line);
            assert!(error.is_retryable(), "{line}: {error:?}");
        }
    }

    #[test]
    fn errors_of_the_wrong_server_replace_the_connection() {
        for line in ["READONLY You can't", "MASTERDOWN Link", "UNBLOCKED force", "ERR max number of clients"]
        {
            assert!(meaning(line).1, "{line}");
        }
        for line in ["NOREPLICAS Not", "BUSY Redis", "LOADING Redis", "OOM command", "WRONGTYPE Operation"] {
            assert!(!meaning(line).1, "{line}");
        }
        assert!(replaces_link(&RedisError::from(io::Error::from(io::ErrorKind::TimedOut))));
    }

    #[test]
    fn an_unknown_error_is_broken_and_a_full_memory_refuses() {
        assert!(matches!(meaning("WRONGTYPE Operation against a key").0, EngineError::Broken { .. }));
        assert!(matches!(meaning("ERR unknown command 'X'").0, EngineError::Broken { .. }));
        assert!(matches!(meaning("OOM command not allowed").0, EngineError::Refused { .. }));
    }

    #[test]
    fn a_wrong_password_refuses_the_address_before_the_first_command() {
        for line in ["NOAUTH Authentication required.", "WRONGPASS invalid", "NOPERM this user"] {
            let refused = explain(&answered(line), Stage::First);
            assert!(matches!(refused, EngineError::Refused { .. }), "{line}: {refused:?}");
        }
        assert!(explain(&answered("READONLY You can't"), Stage::First).is_retryable());
    }

    #[test]
    fn tls_error_is_found_behind_the_clients_error() {
        let expired = rustls::Error::InvalidCertificate(CertificateError::Expired);
        let error = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, expired));
        let refused = explain(&error, Stage::First);
        assert!(matches!(refused, EngineError::Refused { .. }), "{refused:?}");
        assert!(refused.to_string().contains("has expired; renew it"), "{refused}");
        assert!(explain(&error, Stage::Later).is_retryable());
    }

    #[test]
    fn an_error_inside_a_function_or_script_is_midway() {
        assert!(is_midway(&answered("WRONGTYPE Operation script: 85, on @user_script:2.")));
        assert!(is_midway(&answered("WRONGTYPE Operation script: fairlane_6_a_lease, on @user_function:9.")));
        assert!(!is_midway(&answered(
            "LAYOUT the partition script: fairlane_6_a_lease, on @user_function:9."
        )));
        assert!(!is_midway(&answered("ERR Function not found")));
        assert!(!is_midway(&answered("OOM allow-oom flag is not set on the script")));
    }
}
