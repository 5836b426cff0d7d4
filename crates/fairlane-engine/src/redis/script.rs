//! Runs the scripts: by their digest, and as source if the server does not have them.
//!
//! A server forgets scripts on restart, failover and `SCRIPT FLUSH`. Any call may therefore find its
//! script missing, also among others in flight, and then sends the source.

use std::sync::{Arc, LazyLock};

use ::redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::ScriptEdit;
use super::connection::Link;
use super::lua::Library;
use crate::observe;

/// The scripts of one engine.
pub(super) struct Scripts(Arc<Library>);

/// The unmodified code: assembled once per process, and shared by all engines.
static SHIPPED: LazyLock<Arc<Library>> = LazyLock::new(|| Arc::new(Library::new(None)));

impl Scripts {
    pub fn new(edit: Option<ScriptEdit>) -> Self {
        Self(if edit.is_none() { SHIPPED.clone() } else { Arc::new(Library::new(edit)) })
    }

    /// Runs a script on the partition at `key`.
    pub async fn run(
        &self,
        link: &Link,
        stem: &'static str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> Result<Value, RedisError> {
        let script = self.0.script(stem);
        let by_digest = call("EVALSHA", &script.digest, key, arguments);
        let reply = match link.query_raw(&by_digest).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                observe::script_resent(stem);
                link.query_raw(&call("EVAL", &script.code, key, arguments)).await
            }
            reply => reply,
        };
        if reply.is_ok() {
            link.met();
        }
        reply
    }
}

/// Whether a script has refused a partition without our layout's version.
pub(super) fn is_other_layout(error: &RedisError) -> bool {
    error.code() == Some("LAYOUT")
}

fn call(command: &str, script: &str, key: &str, arguments: &[Vec<u8>]) -> Cmd {
    let mut cmd = ::redis::cmd(command);
    cmd.arg(script).arg(1).arg(key);
    for argument in arguments {
        cmd.arg(argument.as_slice());
    }
    cmd
}
