//! Findings of an audit, and the pages of its scan.

use ::redis::Value;
use fairlane_core::queue::{Audit, Audited, Fault, Finding, JobRef};
use fairlane_core::{BulkId, Fence, GroupId, TypeId};

use super::{Decoded, Items, bulk_id, group_id, job_id, parse, text, type_id, unknown};

pub(super) fn audited(command: &Audit, value: Value) -> Decoded<Audited> {
    let mut items = Items::of(value)?;
    let (looked_at, too_large) = (items.number()? as usize, items.number()? == 1);
    let mut rows = Items::of(items.value()?)?;
    let mut findings = Vec::new();
    while !rows.is_empty() {
        let number = rows.number()? as usize;
        let suspect = number.checked_sub(1).and_then(|index| command.suspects.get(index));
        let suspect = suspect.ok_or_else(|| unknown("suspect", number))?.clone();
        let code = rows.text()?;
        let fault = Fault::ALL.iter().copied().find(|fault| fault.code() == code);
        findings.push(Finding {
            suspect,
            fault: fault.ok_or_else(|| unknown("fault", code))?,
            detail: rows.text()?,
            stored: parse(&rows.text()?)?,
            counted: parse(&rows.text()?)?,
            repaired: rows.number()? == 1,
        });
    }
    Ok(Audited { looked_at, too_large, findings })
}

/// A page of names: the next cursor, and the names.
pub(in crate::redis) fn names_page(value: Value) -> Decoded<(Option<String>, Vec<String>)> {
    let mut items = Items::of(value)?;
    let next = Some(items.text()?).filter(|cursor| !cursor.is_empty());
    let mut names = Vec::new();
    while !items.is_empty() {
        names.push(items.text()?);
    }
    Ok((next, names))
}

/// Parses `group:id`.
pub(in crate::redis) fn job_ref(name: &str) -> Decoded<JobRef> {
    let (group, id) = name.split_once(':').ok_or_else(|| unknown("job", name))?;
    Ok(JobRef { group: group_id(group)?, id: job_id(id)? })
}

/// Parses a group's escaped name, as in keys.
pub(in crate::redis) fn group(escaped: &str) -> Decoded<GroupId> {
    group_id(escaped)
}

/// Parses a type's escaped name, as in keys.
pub(in crate::redis) fn type_name(escaped: &str) -> Decoded<TypeId> {
    type_id(escaped)
}

/// Parses a batch's padded number, as in keys.
pub(in crate::redis) fn batch(padded: &str) -> Decoded<Fence> {
    parse(padded).map(Fence)
}

/// Parses a bulk action's escaped name, as in keys.
pub(in crate::redis) fn bulk(escaped: &str) -> Decoded<BulkId> {
    bulk_id(escaped)
}

/// A text, or an empty one for a missing value.
pub(in crate::redis) fn text_if_any(value: Value) -> Decoded<String> {
    match value {
        Value::Nil => Ok(String::new()),
        Value::Double(number) => Ok(number.to_string()),
        value => text(value),
    }
}
