//! The types that a column can have, and how stores write them.
//!
//! Operators read the tables, so names are stored unescaped, states as words, and the numbers of a
//! list separated by spaces.

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::str::FromStr;
use std::sync::Arc;

use super::{Column, ColumnType, Damage, Unwritable, Value};
use crate::names::{ActivityId, BulkId, GroupId, JobId, TypeId, WorkerId};
use crate::numbers::{Cost, Fence, Level, Micros, OutOfRange, RequestNumber, Weight};
use crate::rate::Rate;

/// Types of columns: what the store holds, how a value is written, and how it is taken back.
macro_rules! columns {
    ($($type:ty: $column_type:ident, |$value:ident| $to:expr, |$stored:ident| $from:expr;)+) => {
        $(
            impl Column for $type {
                const TYPE: ColumnType = ColumnType::$column_type;

                fn to_value(&self) -> Result<Value<'_>, Unwritable> {
                    let $value = self;
                    $to
                }

                fn from_value($stored: Value<'_>) -> Result<Self, Damage> {
                    $from
                }
            }
        )+
    };
}

columns! {
    u64: Integer, |number| unsigned(*number), |value| integer(value);
    u32: Integer, |number| unsigned((*number).into()), |value| integer(value);
    usize: Integer, |number| unsigned(*number as u64), |value| integer(value);
    i64: Integer, |number| Ok(Value::Integer(*number)), |value| integer(value);
    bool: Integer, |flag| Ok(Value::Integer((*flag).into())), |value| Ok(integer::<i64>(value)? != 0);
    Micros: Integer, |time| unsigned(time.0), |value| bounded(value);
    Fence: Integer, |fence| unsigned(fence.0), |value| bounded(value);
    RequestNumber: Integer, |request| unsigned(request.0), |value| bounded(value);
    Cost: Integer, |cost| unsigned(cost.get()), |value| Self::new(integer(value)?).map_err(impossible);
    Weight: Integer, |weight| unsigned(weight.get()), |value| Self::new(integer(value)?).map_err(impossible);
    ActivityId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    BulkId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    GroupId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    JobId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    TypeId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    WorkerId: Text, |name| Ok(Value::Text(name.unescaped())), |value| parsed(value);
    String: Text, |text| Ok(Value::Text(text.into())), |value| text(value).map(Cow::into_owned);
    Cow<'static, str>: Text, |text| Ok(Value::Text(Cow::Borrowed(text))),
        |value| text(value).map(|text| text.into_owned().into());
    Rate: Text, |rate| Ok(Value::Text(rate_text(*rate).into())), |value| rate(&text(value)?);
    Vec<u64>: Text, |numbers| Ok(Value::Text(joined(numbers, ' ').into())), |value| numbers(&text(value)?);
    // An id contains no line break.
    Vec<JobId>: Text, |ids| Ok(Value::Text(joined(ids, '\n').into())),
        |value| text(value)?.lines().map(|id| id.parse().map_err(impossible)).collect();
    Arc<[u8]>: Blob, |bytes| Ok(Value::Blob(Cow::Borrowed(bytes))),
        |value| blob(value).map(|bytes| Arc::from(&*bytes));
}

impl<const N: usize> Column for [u64; N] {
    const TYPE: ColumnType = ColumnType::Text;

    fn to_value(&self) -> Result<Value<'_>, Unwritable> {
        Ok(Value::Text(joined(self, ' ').into()))
    }

    fn from_value(value: Value<'_>) -> Result<Self, Damage> {
        let wrong = |numbers: Vec<u64>| Damage::new(format!("{} numbers instead of {N}", numbers.len()));
        numbers(&text(value)?)?.try_into().map_err(wrong)
    }
}

impl<const N: usize> Column for [u8; N] {
    const TYPE: ColumnType = ColumnType::Blob;

    fn to_value(&self) -> Result<Value<'_>, Unwritable> {
        Ok(Value::Blob(Cow::Borrowed(self)))
    }

    fn from_value(value: Value<'_>) -> Result<Self, Damage> {
        let bytes = blob(value)?;
        (&*bytes).try_into().map_err(|_| Damage::new(format!("{} bytes instead of {N}", bytes.len())))
    }
}

impl<T: Column> Column for Option<T> {
    const TYPE: ColumnType = T::TYPE;
    const NULLABLE: bool = true;

    fn to_value(&self) -> Result<Value<'_>, Unwritable> {
        self.as_ref().map_or(Ok(Value::Null), T::to_value)
    }

    fn from_value(value: Value<'_>) -> Result<Self, Damage> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// Columns of words: declares an enum with the word of each variant, or makes columns of enums that
/// have `ALL` values and `as_str` for each.
macro_rules! stored_words {
    (
        $(#[$doc:meta])*
        enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),+];

            const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        $crate::kernel::row::stored_words!($name);
    };
    ($($type:ty),+) => {
        const _: () = {
            use $crate::kernel::row::{Column, ColumnType, Damage, Unwritable, Value};

            $(
                impl Column for $type {
                    const TYPE: ColumnType = ColumnType::Text;

                    fn to_value(&self) -> Result<Value<'_>, Unwritable> {
                        Ok(Value::Text(self.as_str().into()))
                    }

                    fn from_value(value: Value<'_>) -> Result<Self, Damage> {
                        let is_stored = |word: &Self| Value::Text(word.as_str().into()) == value;
                        let found = Self::ALL.iter().copied().find(is_stored);
                        found.ok_or_else(|| Damage::new(format!("{value} is not known")))
                    }
                }
            )+
        };
    };
}

pub(crate) use stored_words;

stored_words!(Level);

fn unsigned(number: u64) -> Result<Value<'static>, Unwritable> {
    number.try_into().map(Value::Integer).map_err(|_| Unwritable(number))
}

fn integer<T: TryFrom<i64>>(value: Value<'_>) -> Result<T, Damage> {
    let Value::Integer(number) = value else { return Err(wrong_type(&value, "a number")) };
    number.try_into().map_err(|_| Damage::new(format!("{number} is out of range")))
}

/// Reads a number whose type has its own bounds.
fn bounded<T: TryFrom<u64, Error = OutOfRange>>(value: Value<'_>) -> Result<T, Damage> {
    integer::<u64>(value)?.try_into().map_err(impossible)
}

fn text(value: Value<'_>) -> Result<Cow<'_, str>, Damage> {
    let Value::Text(text) = value else { return Err(wrong_type(&value, "text")) };
    Ok(text)
}

fn blob(value: Value<'_>) -> Result<Cow<'_, [u8]>, Damage> {
    let Value::Blob(bytes) = value else { return Err(wrong_type(&value, "bytes")) };
    Ok(bytes)
}

fn wrong_type(value: &Value<'_>, wanted: &str) -> Damage {
    Damage::new(format!("{value} is not {wanted}"))
}

fn parsed<T: FromStr<Err: Display>>(value: Value<'_>) -> Result<T, Damage> {
    text(value)?.parse().map_err(impossible)
}

fn impossible(error: impl Display) -> Damage {
    Damage::new(error.to_string())
}

fn rate_text(rate: Rate) -> String {
    format!("{} per {} ms, burst {}", rate.count(), rate.period_ms(), rate.burst())
}

fn rate(text: &str) -> Result<Rate, Damage> {
    let numbers: Vec<u64> = text.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [count, period_ms, burst] = numbers[..] else {
        return Err(Damage::new(format!("{text:?} is not a rate")));
    };
    Rate::new(count, period_ms, Some(burst)).map_err(impossible)
}

fn numbers(text: &str) -> Result<Vec<u64>, Damage> {
    let numbers: Result<_, _> = text.split_whitespace().map(str::parse).collect();
    numbers.map_err(|_| Damage::new(format!("{text:?} is not a list of numbers")))
}

fn joined(items: &[impl Display], separator: char) -> String {
    let mut text = String::with_capacity(items.len() * 8);
    for item in items {
        if !text.is_empty() {
            text.push(separator);
        }
        write!(text, "{item}").expect("a string takes all that is written to it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INTEGER_MAX;

    fn there_and_back<T: Column + PartialEq + std::fmt::Debug>(value: T, stored: Value<'_>) {
        assert_eq!(value.to_value(), Ok(stored.clone()));
        assert_eq!(T::from_value(stored), Ok(value));
    }

    #[test]
    fn a_value_reads_as_it_was_written() {
        there_and_back(i64::MAX as u64, Value::Integer(i64::MAX));
        there_and_back(i64::MIN, Value::Integer(i64::MIN));
        there_and_back(true, Value::Integer(1));
        there_and_back(Cost::new(3).unwrap(), Value::Integer(3));
        there_and_back(Level::Low, Value::Text("low".into()));
        there_and_back(JobId::new("50%:a").unwrap(), Value::Text("50%:a".into()));
        there_and_back(Rate::new(10, 1000, Some(3)).unwrap(), Value::Text("10 per 1000 ms, burst 3".into()));
        there_and_back(vec![3_u64, 1, 2], Value::Text("3 1 2".into()));
        there_and_back([7_u64, u64::MAX], Value::Text("7 18446744073709551615".into()));
        there_and_back(
            vec![JobId::new("a b").unwrap(), JobId::new("c").unwrap()],
            Value::Text("a b\nc".into()),
        );
        there_and_back([1_u8, 2], Value::Blob(vec![1, 2].into()));
        there_and_back(Arc::<[u8]>::from(&b"x"[..]), Value::Blob(b"x"[..].into()));
        there_and_back(None::<Micros>, Value::Null);
    }

    #[test]
    fn names_and_bytes_are_borrowed() {
        let (name, payload) = (GroupId::new("customer 1").unwrap(), Arc::<[u8]>::from(&b"{}"[..]));
        assert!(matches!(name.to_value(), Ok(Value::Text(Cow::Borrowed("customer 1")))));
        assert!(matches!(payload.to_value(), Ok(Value::Blob(Cow::Borrowed(b"{}")))));
    }

    #[test]
    fn a_number_that_no_store_holds_is_refused_and_a_value_that_cannot_be_is_damage() {
        for number in [i64::MAX as u64 + 1, u64::MAX] {
            assert_eq!(number.to_value(), Err(Unwritable(number)));
            assert_eq!(Some(Fence(number)).to_value(), Err(Unwritable(number)));
        }
        assert!(
            u64::from_value(Value::Integer(-1)).is_err() && u32::from_value(Value::Integer(1 << 32)).is_err()
        );
        assert!(u64::from_value(Value::Null).is_err() && u64::from_value(Value::Text("1".into())).is_err());
        for number in [-1, INTEGER_MAX as i64, i64::MAX] {
            assert!(Micros::from_value(Value::Integer(number)).is_err());
            assert!(Fence::from_value(Value::Integer(number)).is_err());
            assert!(RequestNumber::from_value(Value::Integer(number)).is_err());
        }
        assert!(Cost::from_value(Value::Integer(0)).is_err());
        assert!(Level::from_value(Value::Text("urgent".into())).is_err());
        assert!(<[u64; 2]>::from_value(Value::Text("1".into())).is_err());
        assert!(<[u8; 2]>::from_value(Value::Blob(vec![1].into())).is_err());
        assert!(Vec::<u64>::from_value(Value::Text("1 x".into())).is_err());
    }
}
