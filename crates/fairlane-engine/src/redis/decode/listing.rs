//! Pages of jobs, and explanations.

use ::redis::Value;
use fairlane_core::Micros;
use fairlane_core::queue::*;

use super::{Decoded, Items, bulks, group_id, job_id, rate, unknown, views};

pub(super) fn listed(mut items: Items) -> Decoded<Listed> {
    let next = items.number_if_any()?;
    let mut jobs = Vec::new();
    while !items.is_empty() {
        let job = JobRef { group: group_id(&items.text()?)?, id: job_id(&items.text()?)? };
        jobs.push(views::job_view(&job, &mut items)?.into());
    }
    Ok(Listed { jobs, next })
}

pub(super) fn explained(job: &JobRef, value: Value) -> Decoded<Explained> {
    if matches!(&value, Value::BulkString(bytes) if bytes.is_empty()) {
        return Ok(Explained(None));
    }
    let mut parts = Items::of(value)?;
    let mut facts = Items::of(parts.value()?)?;
    let (at, unwanted) = (Micros(facts.number()?), facts.number()? == 1);
    let position = facts.number_if_any()?;
    let (group_opens_at, type_opens_at, queue_opens_at) = (facts.time()?, facts.time()?, facts.time()?);
    let rules = rules(&mut facts)?;
    if !facts.is_empty() {
        return Err(unknown("end", "more facts than are known"));
    }
    Ok(Explained(Some(Box::new(Explanation {
        at,
        job: views::job_view(job, &mut Items::of(parts.value()?)?)?.into(),
        unwanted,
        position,
        group: views::group_view(Items::of(parts.value()?)?)?,
        of_type: views::type_view(Items::of(parts.value()?)?)?,
        bulk: bulks::view_if_any(Items::of(parts.value()?)?)?,
        rules,
        group_opens_at,
        type_opens_at,
        queue_opens_at,
    }))))
}

fn rules(facts: &mut Items) -> Decoded<Rules> {
    let classic = facts.number()? == 1;
    Ok(Rules {
        discipline: if classic { Discipline::Classic } else { Discipline::Share },
        max_retry_count: facts.number()? as u32,
        rate: rate(&mut facts.text()?.split(':'))?,
        ready_queue_max_size: facts.number()?,
        global_rps: facts.number()?,
        passed: facts.number()?,
        group_rps: facts.number()?,
        group_passed: facts.number()?,
    })
}
