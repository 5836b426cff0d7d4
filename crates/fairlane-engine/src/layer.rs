//! An engine around another engine, composed of hooks.
//!
//! Invariant: calls without a hook reach the inner engine unchanged, so that a wrapper cannot
//! forget a new method of [`Engine`].

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::{Command, ProcessId, Reply, TypeId};

use crate::engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo};
use crate::signals::Signals;

type SubmitHook =
    dyn Fn(Arc<dyn Engine>, Command) -> BoxFuture<'static, Result<Reply, EngineError>> + Send + Sync;
type WaitHook = dyn Fn(Arc<dyn Engine>, Vec<TypeId>, Duration) -> BoxFuture<'static, Result<bool, EngineError>>
    + Send
    + Sync;
type WhenWokenHook = dyn Fn(Arc<dyn Engine>, Vec<TypeId>, Duration, Command) -> BoxFuture<'static, Result<Reply, EngineError>>
    + Send
    + Sync;
type SubscribeHook =
    dyn Fn(Arc<dyn Engine>, ProcessId) -> BoxFuture<'static, Result<Signals, EngineError>> + Send + Sync;

/// What a layer does instead of the inner engine. Each hook gets that engine as an argument.
#[derive(Default)]
pub struct Hooks {
    submit: Option<Box<SubmitHook>>,
    wait: Option<Box<WaitHook>>,
    when_woken: Option<Box<WhenWokenHook>>,
    subscribe: Option<Box<SubscribeHook>>,
}

impl Hooks {
    /// Replaces [`Engine::submit`].
    pub fn submit<F>(mut self, hook: F) -> Self
    where
        F: Fn(Arc<dyn Engine>, Command) -> BoxFuture<'static, Result<Reply, EngineError>>,
        F: Send + Sync + 'static,
    {
        self.submit = Some(Box::new(hook));
        self
    }

    /// Replaces [`Engine::wait`].
    pub fn wait<F>(mut self, hook: F) -> Self
    where
        F: Fn(Arc<dyn Engine>, Vec<TypeId>, Duration) -> BoxFuture<'static, Result<bool, EngineError>>,
        F: Send + Sync + 'static,
    {
        self.wait = Some(Box::new(hook));
        self
    }

    /// Replaces [`Engine::submit_when_woken`]. Without it, a layer with one of the hooks above waits
    /// and then submits, so that no command or wait passes them by.
    pub fn when_woken<F>(mut self, hook: F) -> Self
    where
        F: Fn(
            Arc<dyn Engine>,
            Vec<TypeId>,
            Duration,
            Command,
        ) -> BoxFuture<'static, Result<Reply, EngineError>>,
        F: Send + Sync + 'static,
    {
        self.when_woken = Some(Box::new(hook));
        self
    }

    /// Replaces [`Engine::subscribe`].
    pub fn subscribe<F>(mut self, hook: F) -> Self
    where
        F: Fn(Arc<dyn Engine>, ProcessId) -> BoxFuture<'static, Result<Signals, EngineError>>,
        F: Send + Sync + 'static,
    {
        self.subscribe = Some(Box::new(hook));
        self
    }
}

/// Wraps an engine in hooks.
pub fn layer(inner: Arc<dyn Engine>, hooks: Hooks) -> Arc<dyn Engine> {
    Arc::new(Layer { inner, hooks })
}

struct Layer {
    inner: Arc<dyn Engine>,
    hooks: Hooks,
}

impl Engine for Layer {
    fn info(&self) -> EngineInfo {
        self.inner.info()
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        match &self.hooks.submit {
            Some(hook) => hook(self.inner.clone(), command),
            None => self.inner.submit(command),
        }
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        match &self.hooks.wait {
            Some(hook) => hook(self.inner.clone(), types.to_vec(), at_most),
            None => self.inner.wait(types, at_most),
        }
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        match &self.hooks {
            Hooks { when_woken: Some(hook), .. } => {
                hook(self.inner.clone(), types.to_vec(), at_most, command)
            }
            Hooks { submit: None, wait: None, .. } => self.inner.submit_when_woken(types, at_most, command),
            _ => Box::pin((self as &dyn Engine).wait_then_submit(types, at_most, command)),
        }
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        match &self.hooks.subscribe {
            Some(hook) => hook(self.inner.clone(), process.clone()),
            None => self.inner.subscribe(process),
        }
    }

    fn admin(&self) -> &dyn Admin {
        self.inner.admin()
    }
}
