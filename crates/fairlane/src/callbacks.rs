//! A worker that delivers the callbacks of bulk actions.

use fairlane_targets::{CALLBACK_MAX_RETRY_COUNT, CallbackSettings, Callbacks};
use fairlane_worker::{CALLBACK_TYPE, Worker};

use crate::error::Error;
use crate::fairlane::Fairlane;

impl Fairlane {
    /// A worker that also delivers the callbacks of bulk actions. They are signed as Standard
    /// Webhooks specifies, retried for up to a day, and not sent to private addresses unless the
    /// settings permit it. The number of retries is a setting of the type `fairlane-callback`; an
    /// existing setting stays.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlane::{CallbackSettings, Context, Fairlane};
    ///
    /// let fairlane = Fairlane::open("memory:").await?;
    /// let secrets = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?];
    /// let worker = fairlane.worker_with_callbacks(CallbackSettings::new(secrets)).await?;
    /// let pool = worker.process("mail", |_to: String, _: Context| async {}).start()?;
    /// pool.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn worker_with_callbacks(&self, settings: CallbackSettings) -> Result<Worker, Error> {
        let options = settings.type_options();
        let deliver = Callbacks::new(self.engine().clone(), settings)?;
        let callbacks = self.job_type(CALLBACK_TYPE);
        let is_set = callbacks.view().await?.is_some_and(|view| view.settings.max_retry_count.is_some());
        if !is_set {
            callbacks.max_retry_count(CALLBACK_MAX_RETRY_COUNT).apply().await?;
        }
        Ok(self.worker().processor_with(CALLBACK_TYPE, options, deliver))
    }
}
