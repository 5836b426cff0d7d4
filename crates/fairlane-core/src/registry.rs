//! The only list of capabilities.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Invalid, OperationWeight};
use crate::queue;

macro_rules! capabilities {
    ($($(#[$doc:meta])* $capability:ident($module:ident)),+ $(,)?) => {
        /// A command of any capability. New capabilities are appended, so that the wire format of
        /// the others does not change.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Command {
            $($(#[$doc])* $capability($module::Command),)+
        }

        /// The reply to a [`Command`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Reply {
            $($(#[$doc])* $capability($module::Reply),)+
        }

        impl Command {
            /// The stems of all operations of all capabilities.
            pub fn stems() -> impl Iterator<Item = &'static str> {
                std::iter::empty()$(.chain($module::Command::STEMS.iter().copied()))+
            }

            /// Checks what the argument types cannot guarantee.
            pub fn validate(&self) -> Result<(), Invalid> {
                match self { $(Self::$capability(command) => command.validate(),)+ }
            }

            /// The stem of the operation: its file, script, metric label and conformance chapter.
            pub fn stem(&self) -> &'static str {
                match self { $(Self::$capability(command) => command.stem(),)+ }
            }

            /// Whether the command leaves the state unchanged.
            pub fn is_read_only(&self) -> bool {
                match self { $(Self::$capability(command) => command.is_read_only(),)+ }
            }

            /// The permission that the caller needs, and the groups whose data the
            /// command accesses.
            pub fn access(&self) -> Access<'_> {
                match self { $(Self::$capability(command) => command.access(),)+ }
            }

            /// The amount of work that the command causes.
            pub fn weight(&self) -> OperationWeight {
                match self { $(Self::$capability(command) => command.weight(),)+ }
            }
        }

        $(
            impl From<$module::Command> for Command {
                fn from(command: $module::Command) -> Self {
                    Self::$capability(command)
                }
            }

            impl From<$module::Reply> for Reply {
                fn from(reply: $module::Reply) -> Self {
                    Self::$capability(reply)
                }
            }
        )+
    };
}

capabilities! {
    /// The job queue.
    Queue(queue),
}
