//! Runs operations: as functions of a library, or as scripts where the server accepts no library.
//!
//! The library is named by its content and never replaced, so versions of the program, key prefixes
//! and changed files in tests exist side by side. A new server, a new node of a cluster and one after
//! `FUNCTION FLUSH` do not have it. Any call may therefore find its function missing, also among
//! others in flight, and then loads the library on the server that answered.
//!
//! A server refuses the library when its memory is full, when it is a replica, and when the user may
//! not use `FCALL` or `FUNCTION LOAD`. Then the same code runs as a script per operation for a while,
//! so that a full queue can be drained and a read-only user can read.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use ::redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::ScriptEdit;
use super::codec::text;
use super::connection::Link;
use super::errors;
use super::lua::Library;
use crate::observe;

/// How long scripts are used after the server has refused the library.
const SCRIPTS_FOR: Duration = Duration::from_secs(60);

/// The Lua code of one engine, and how it is run.
pub(super) struct Scripts {
    library: Arc<Library>,
    /// Until when scripts are used instead of the library.
    scripts_until: Mutex<Option<Instant>>,
}

/// The unmodified code: assembled once per process, and shared by all engines.
static SHIPPED: LazyLock<Arc<Library>> = LazyLock::new(|| Arc::new(Library::new(None)));

impl Scripts {
    pub fn new(edit: Option<ScriptEdit>) -> Self {
        let library = if edit.is_none() { SHIPPED.clone() } else { Arc::new(Library::new(edit)) };
        Self { library, scripts_until: Mutex::new(None) }
    }

    /// Runs an operation on the partition at `key`.
    pub async fn run(
        &self,
        link: &Link,
        stem: &'static str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> Result<Value, RedisError> {
        let reply = match self.run_function(link, stem, key, arguments).await {
            Ok(None) => self.run_script(link, stem, key, arguments).await,
            Ok(Some(reply)) => Ok(reply),
            Err(error) => Err(error),
        };
        if reply.is_ok() {
            link.met();
        }
        reply
    }

    /// The call of an operation's function; `None` while scripts are used.
    pub fn function_call(&self, stem: &'static str, key: &str, arguments: &[Vec<u8>]) -> Option<Cmd> {
        (!self.uses_scripts()).then(|| call("FCALL", self.library.function(stem), key, arguments))
    }

    /// Calls the function of an operation; `None` if the server refuses the library.
    async fn run_function(
        &self,
        link: &Link,
        stem: &'static str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> Result<Option<Value>, RedisError> {
        let Some(call) = self.function_call(stem, key, arguments) else { return Ok(None) };
        let mut reply = link.query_raw(&call).await;
        if reply.as_ref().is_err_and(is_missing) {
            observe::script_resent(stem);
            if let Err(error) = self.load(link, key).await {
                // Without a code, it is an error of the connection.
                return if error.code().is_some() { self.use_scripts() } else { Err(error) };
            }
            reply = link.query_raw(&call).await;
        }
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if is_refused(&error) => self.use_scripts(),
            Err(error) => Err(error),
        }
    }

    async fn run_script(
        &self,
        link: &Link,
        stem: &'static str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> Result<Value, RedisError> {
        let script = self.library.script(stem);
        match link.query_raw(&call("EVALSHA", &script.digest, key, arguments)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                observe::script_resent(stem);
                link.query_raw(&call("EVAL", &script.code, key, arguments)).await
            }
            reply => reply,
        }
    }

    /// Loads the library on the server with this key, and removes libraries of older layouts.
    async fn load(&self, link: &Link, key: &str) -> Result<(), RedisError> {
        let mut load = ::redis::cmd("FUNCTION");
        load.arg("LOAD").arg(&self.library.code);
        match link.query_at(key, &load).await {
            // Another call has loaded it in the meantime.
            Err(error) if error.to_string().contains("already exists") => return Ok(()),
            loaded => loaded?,
        };
        let mut list = ::redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(Library::PATTERN);
        // A library that stays takes memory and does no harm, so errors from here on are ignored.
        let listed = link.query_at(key, &list).await.unwrap_or(Value::Nil);
        let libraries: Vec<HashMap<String, Value>> = ::redis::from_redis_value(listed).unwrap_or_default();
        let names =
            libraries.into_iter().filter_map(|mut library| text(library.remove("library_name")?).ok());
        for name in names.filter(|name| Library::is_of_older_layout(name)) {
            let mut delete = ::redis::cmd("FUNCTION");
            delete.arg("DELETE").arg(name);
            drop(link.query_at(key, &delete).await);
        }
        Ok(())
    }

    fn uses_scripts(&self) -> bool {
        let until = self.scripts_until.lock().expect("nothing panics while it holds the time");
        until.is_some_and(|until| Instant::now() < until)
    }

    fn use_scripts<T>(&self) -> Result<Option<T>, RedisError> {
        let until = Instant::now() + SCRIPTS_FOR;
        *self.scripts_until.lock().expect("nothing panics while it holds the time") = Some(until);
        Ok(None)
    }
}

/// Whether an operation has refused a partition without our layout's version.
pub(super) fn is_other_layout(error: &RedisError) -> bool {
    error.code() == Some("LAYOUT")
}

fn is_missing(error: &RedisError) -> bool {
    error.detail() == Some("Function not found")
}

/// Whether the server has refused the call itself: it knows no functions, does not have this one in
/// spite of loading it, or the user may not call it.
fn is_refused(error: &RedisError) -> bool {
    let unknown = || error.to_string().contains("unknown command");
    !errors::is_midway(error) && (is_missing(error) || error.code() == Some("NOPERM") || unknown())
}

fn call(command: &str, code: &str, key: &str, arguments: &[Vec<u8>]) -> Cmd {
    let mut cmd = ::redis::cmd(command);
    cmd.arg(code).arg(1).arg(key);
    for argument in arguments {
        cmd.arg(argument.as_slice());
    }
    cmd
}
