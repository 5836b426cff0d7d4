//! A macro that declares a capability's operations and derives closed enums from the list.

/// Declares the commands and replies of a capability: `operations! { Capability(Machine):
/// first::First, second::Second { SecondReply }, … }`. Each operation is exported with the other
/// types of its file that are named behind it.
///
/// The variants of `Command` and `Reply` are named after the operations and follow the order of the
/// list. That order is the wire format: append, never insert.
macro_rules! operations {
    ($capability:ident($machine:ty): $($file:ident::$operation:ident $({ $($also:ident),+ })?),+ $(,)?) => {
        $(pub use $file::{$operation $($(, $also)+)?};)+

        /// A command of this capability.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum Command {
            $(
                #[doc = concat!("The operation [`", stringify!($operation), "`].")]
                $operation($operation),
            )+
        }

        /// The reply to a command of this capability.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "a reply is moved once; a box would be allocated for each")]
        pub enum Reply {
            $(
                #[doc = concat!("The reply to [`Command::", stringify!($operation), "`].")]
                $operation(<$operation as $crate::kernel::Operation>::Reply),
            )+
        }

        impl Command {
            /// The stems of all operations, in the order of the commands.
            pub const STEMS: &'static [&'static str] =
                &[$(<$operation as $crate::kernel::Operation>::STEM),+];

            /// Checks what the argument types cannot guarantee.
            pub fn validate(&self) -> Result<(), $crate::kernel::Invalid> {
                match self { $(Self::$operation(operation) => $crate::kernel::Operation::validate(operation),)+ }
            }

            /// The stem of the operation.
            pub fn stem(&self) -> &'static str {
                match self { $(Self::$operation(_) => <$operation as $crate::kernel::Operation>::STEM,)+ }
            }

            /// Whether the command leaves the machine unchanged.
            pub fn is_read_only(&self) -> bool {
                match self { $(Self::$operation(operation) => $crate::kernel::Operation::is_read_only(operation),)+ }
            }

            /// The permission that the caller needs, and the groups whose data the
            /// command accesses.
            pub fn access(&self) -> $crate::kernel::Access<'_> {
                match self { $(Self::$operation(operation) => $crate::kernel::Operation::access(operation),)+ }
            }

            /// The amount of work that the command causes.
            pub fn weight(&self) -> $crate::kernel::OperationWeight {
                match self { $(Self::$operation(operation) => $crate::kernel::Operation::weight(operation),)+ }
            }

            /// Whether the command stores new data.
            pub fn adds_data(&self) -> bool {
                match self { $(Self::$operation(operation) => $crate::kernel::Operation::adds_data(operation),)+ }
            }

            /// Serialises the arguments of the operation, without its name.
            pub fn serialize_arguments<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$operation(operation) => serde::Serialize::serialize(operation, serializer),)+ }
            }

            /// Deserialises the reply to this command.
            pub fn reply_from<'de, D: serde::Deserializer<'de>>(&self, deserializer: D) -> Result<Reply, D::Error> {
                match self {
                    $(Self::$operation(_) => {
                        serde::Deserialize::deserialize(deserializer).map(Reply::$operation)
                    })+
                }
            }

            /// Applies a validated command.
            pub(super) fn apply(self, machine: &mut $machine, context: &mut $crate::kernel::Context) -> Reply {
                match self {
                    $(Self::$operation(operation) => {
                        Reply::$operation($crate::kernel::Operation::apply(operation, machine, context))
                    })+
                }
            }
        }

        $(
            impl $crate::kernel::Registered for $operation {
                fn into_command(self) -> $crate::Command {
                    $crate::Command::$capability(Command::$operation(self))
                }

                #[allow(unreachable_patterns, reason = "a registry of one capability has no other reply")]
                fn from_reply(reply: $crate::Reply) -> Option<Self::Reply> {
                    match reply {
                        $crate::Reply::$capability(Reply::$operation(reply)) => Some(reply),
                        _ => None,
                    }
                }
            }

            impl From<$operation> for Command {
                fn from(operation: $operation) -> Self {
                    Self::$operation(operation)
                }
            }
        )+
    };
}

pub(crate) use operations;
