//! A macro that declares the rows of a capability and derives structs and tables from them.

/// Declares all kinds of rows of a capability, and its changes:
///
/// ```text
/// rows! {
///     /// Rows to be removed and to be written.
///     pub struct Changes;
///
///     /// The part of a job that never changes.
///     struct JobRow in jobs, key 1, of (job: Job, machine: &Machine); once {
///         number: u64 = job.number,
///         group_id: GroupId => machine.groups[job.group].name.clone(),
///         …
/// ```
///
/// Each kind becomes a struct that implements [`Row`](super::Row) for the table it names. Fields
/// are named as the columns. The first `key` columns are the key. `once` declares that a row is
/// never overwritten.
///
/// `of` declares the arguments of `of()`, which makes a row: the state, and further arguments. A
/// field with `=` is copied from that field of the state, and `apply()` copies it back. A field
/// with `=>` is only computed.
///
/// A store adds tables and columns that it does not have yet. So a new column must be nullable, or
/// 0 or empty must be correct for existing rows.
macro_rules! rows {
    (
        $(#[$changes_doc:meta])*
        pub struct $changes:ident;
        $(
            $(#[$doc:meta])*
            struct $row:ident in $table:ident, key $key:literal $(, of $of:tt)? $(; $once:ident)? {
                $(
                    $(#[$field_doc:meta])*
                    $field:ident: $type:ty $(= $place:expr)? $(=> $made:expr)?,
                )+
            }
        )+
    ) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub(super) struct $row {
                $($(#[$field_doc])* $field: $type,)+
            }

            $crate::kernel::row::rows!(@of $row $($of)? { $($field $(= $place)? $(=> $made)?,)+ });
        )+

        $(#[$changes_doc])*
        #[derive(Debug, Default)]
        pub struct $changes {
            $($table: $crate::kernel::row::Changed<$row>,)+
        }

        const _: () = {
            use $crate::kernel::row::{
                ChangeSet, Column, ColumnInfo, Damage, Row, RowSink, TableInfo, Unwritable, Value,
            };

            $(
                impl Row for $row {
                    type Key = $crate::kernel::row::rows!(@first $($type),+);
                    const TABLE: &'static TableInfo = &TableInfo {
                        name: stringify!($table),
                        columns: &[$(ColumnInfo {
                            name: stringify!($field),
                            column_type: <$type>::TYPE,
                            nullable: <$type>::NULLABLE,
                        }),+],
                        key_columns: $key,
                        written_once: $crate::kernel::row::rows!(@once $($once)?),
                    };

                    fn bind<E>(
                        &self,
                        mut put: impl FnMut(Result<Value<'_>, Unwritable>) -> Result<(), E>,
                    ) -> Result<(), E> {
                        $(put(self.$field.to_value())?;)+
                        Ok(())
                    }

                    fn read<'a>(
                        mut next: impl FnMut() -> Result<Value<'a>, Damage>,
                    ) -> Result<Self, Damage> {
                        let column = |damage: Damage, name| damage.in_column(stringify!($table), name);
                        Ok(Self {
                            $($field: next()
                                .and_then(Column::from_value)
                                .map_err(|damage| column(damage, stringify!($field)))?,)+
                        })
                    }
                }
            )+

            impl ChangeSet for $changes {
                const TABLES: &'static [&'static TableInfo] = &[$($row::TABLE),+];

                fn write_to<S: RowSink>(&self, store: &mut S) -> Result<(), S::Error> {
                    $(store.write(&self.$table)?;)+
                    Ok(())
                }

                fn count(&self) -> usize {
                    0 $(+ self.$table.count())+
                }
            }
        };
    };
    (@of $row:ident ($state:ident: $state_type:ty $(, $argument:ident: $argument_type:ty)*) {
        $($field:ident $(= $place:expr)? $(=> $made:expr)?,)+
    }) => {
        impl $row {
            fn of($state: &$state_type $(, $argument: $argument_type)*) -> Self {
                Self { $($field: $(Clone::clone(&$place))? $($made)?,)+ }
            }

            #[allow(dead_code, unused_variables, reason = "some kinds are put back by hand")]
            fn apply(&self, $state: &mut $state_type) {
                $($($place = Clone::clone(&self.$field);)?)+
            }
        }
    };
    (@of $row:ident { $($field:ident,)+ }) => {};
    (@first $first:ty $(, $rest:ty)*) => { $first };
    (@once) => { false };
    (@once once) => { true };
}

pub(crate) use rows;
