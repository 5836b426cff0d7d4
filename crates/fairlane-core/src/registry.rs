//! The only list of capabilities, and what follows from it: commands and replies over all of them,
//! and the machines that a store keeps together.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hashing::HashSeed;
use crate::kernel::row::{ChangeSet, RowSink, RowSource, TableInfo};
use crate::kernel::{Access, Dump, Invalid, Machine, OperationWeight, RestoreMode, Restored, Signal, Stored};
use crate::names::TypeId;
use crate::numbers::Micros;

macro_rules! capabilities {
    ($($(#[$doc:meta])* $capability:ident($module:ident)),+ $(,)?) => {
        /// A command of any capability. New capabilities are appended, so that the wire format of
        /// the others does not change.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Command {
            $($(#[$doc])* $capability(crate::$module::Command),)+
        }

        /// The reply to a [`Command`].
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "a reply is moved once; a box would be allocated for each")]
        pub enum Reply {
            $($(#[$doc])* $capability(crate::$module::Reply),)+
        }

        impl Command {
            /// The stems of all operations of all capabilities.
            pub fn stems() -> impl Iterator<Item = &'static str> {
                std::iter::empty()$(.chain(crate::$module::Command::STEMS.iter().copied()))+
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

            /// Whether the command stores new data.
            pub fn adds_data(&self) -> bool {
                match self { $(Self::$capability(command) => command.adds_data(),)+ }
            }

            /// Serialises the arguments of the operation, without its name.
            pub fn serialize_arguments<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$capability(command) => command.serialize_arguments(serializer),)+ }
            }

            /// Deserialises the reply to this command.
            pub fn reply_from<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Reply, D::Error> {
                match self { $(Self::$capability(command) => command.reply_from(deserializer).map(Into::into),)+ }
            }

            $(
                #[doc = concat!("The command, if it is one of `", stringify!($module), "`.")]
                #[allow(irrefutable_let_patterns, reason = "a registry of one capability has no other command")]
                pub fn $module(&self) -> Option<&crate::$module::Command> {
                    if let Self::$capability(command) = self { Some(command) } else { None }
                }
            )+
        }

        impl Reply {
            $(
                #[doc = concat!("The reply, if it is one of `", stringify!($module), "`.")]
                #[allow(irrefutable_let_patterns, reason = "a registry of one capability has no other reply")]
                pub fn $module(&self) -> Option<&crate::$module::Reply> {
                    if let Self::$capability(reply) = self { Some(reply) } else { None }
                }
            )+
        }

        /// The machines of all capabilities, which one store keeps together.
        #[derive(Debug)]
        pub struct Machines {
            $($(#[$doc])* pub $module: crate::$module::Machine,)+
        }

        impl Machines {
            /// Empty machines.
            pub fn new(hash_seed: HashSeed, now: Micros) -> Self {
                Self { $($module: Machine::new(hash_seed, now),)+ }
            }

            /// Applies one validated command.
            pub fn apply(&mut self, command: Command, now: Micros) -> Reply {
                match command {
                    $(Command::$capability(command) => {
                        Reply::$capability(Machine::apply(&mut self.$module, command, now))
                    })+
                }
            }

            /// Begins to record the rows that commands change.
            pub fn record(&mut self) {
                $(Stored::record(&mut self.$module);)+
            }

            /// The rows that differ from those returned before; none unless [`Machines::record`]
            /// was called.
            pub fn take_changes(&mut self) -> Changes {
                Changes { $($module: Stored::take_changes(&mut self.$module),)+ }
            }

            /// The machines made of the rows in a store, or `None` for a store without any.
            pub fn restore<S: RowSource>(
                source: &mut S,
                hash_seed: HashSeed,
                mode: RestoreMode,
            ) -> Result<Option<Restored<Self>>, S::Error> {
                let (mut mended, mut is_new) = (Vec::new(), true);
                let machine = Self {
                    $($module: match <crate::$module::Machine as Stored>::restore(source, hash_seed, mode)? {
                        Some(restored) => {
                            is_new = false;
                            mended.extend(restored.mended);
                            restored.machine
                        }
                        None => {
                            let mut machine = <crate::$module::Machine as Machine>::new(hash_seed, Micros::default());
                            Stored::record(&mut machine);
                            machine
                        }
                    },)+
                };
                Ok((!is_new).then_some(Restored { machine, mended }))
            }

            /// Releases leases that ended with the process that had the store open before.
            pub fn reopen(&mut self) {
                $(Machine::reopen(&mut self.$module);)+
            }

            /// The time of the last command.
            pub fn last_time(&self) -> Micros {
                Micros::default()$(.max(Machine::last_time(&self.$module)))+
            }

            /// Recounts everything; an error describes the first mismatch.
            pub fn check(&self) -> Result<(), String> {
                $(Machine::check(&self.$module)?;)+
                Ok(())
            }

            /// The state under the keys that it has in Redis, normalised as of `now`.
            pub fn dump(&self, now: Micros) -> Dump {
                let mut dump = Dump::default();
                $(Machine::dump(&self.$module, now, &mut dump);)+
                dump.normalise(now)
            }

            /// Takes the signals of the commands since the last call.
            pub fn take_signals(&mut self) -> Vec<Signal> {
                let mut signals = Vec::new();
                $(signals.append(&mut Machine::take_signals(&mut self.$module));)+
                signals
            }

            /// The types that have a wake-up token.
            pub fn types_with_tokens(&self) -> impl Iterator<Item = &TypeId> {
                std::iter::empty()$(.chain(Machine::types_with_tokens(&self.$module)))+
            }

            /// Takes one wake-up token of a type; returns whether there was one.
            pub fn take_token(&mut self, type_id: &TypeId) -> bool {
                false $(|| Machine::take_token(&mut self.$module, type_id))+
            }
        }

        /// The rows of all capabilities that a store has to remove and to write.
        #[derive(Debug)]
        pub struct Changes {
            $($module: <crate::$module::Machine as Stored>::Changes,)+
        }

        impl Changes {
            /// All tables of all capabilities.
            pub fn tables() -> impl Iterator<Item = &'static TableInfo> {
                std::iter::empty()
                    $(.chain(<<crate::$module::Machine as Stored>::Changes as ChangeSet>::TABLES.iter().copied()))+
            }

            /// Writes the changes of each table to a store.
            pub fn write_to<S: RowSink>(&self, store: &mut S) -> Result<(), S::Error> {
                $(self.$module.write_to(store)?;)+
                Ok(())
            }

            /// Whether nothing has to be written.
            pub fn is_empty(&self) -> bool {
                true $(&& self.$module.count() == 0)+
            }
        }

        $(
            impl From<crate::$module::Command> for Command {
                fn from(command: crate::$module::Command) -> Self {
                    Self::$capability(command)
                }
            }

            impl From<crate::$module::Reply> for Reply {
                fn from(reply: crate::$module::Reply) -> Self {
                    Self::$capability(reply)
                }
            }
        )+
    };
}

capabilities! {
    /// The job queue.
    Queue(queue),
    /// Locks by name.
    Lock(lock),
    /// Waiting rooms.
    Room(room),
    /// Ranking boards.
    Ranking(ranking),
    /// The activity log.
    Activity(activity),
}
