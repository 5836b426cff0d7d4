//! Tests of the encoding: its bytes, its limits, and that invalid input is rejected.
//!
//! - `tests/rankings.rs`: the bytes of the operations on boards.

mod rankings;

use std::sync::Arc;

use fairlane_core::kernel::Registered;
use fairlane_core::limits::AUDIT_SUSPECTS_MAX;
use fairlane_core::queue::{self, *};
use fairlane_core::{
    BulkId, Command, Cost, Fence, GroupId, JobId, Level, Micros, Rate, Reply, RequestNumber, TypeId, Weight,
    WorkerId,
};

use super::*;

fn job_ref(group: &str, id: &str) -> JobRef {
    JobRef { group: GroupId::new(group).unwrap(), id: JobId::new(id).unwrap() }
}

fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

/// Any change to these bytes is a new version of the format: raise the number in `CONTENT_TYPE`.
#[test]
fn the_bytes_of_a_version_stay_what_they_are() {
    let settled = Settle {
        settlements: vec![Settlement {
            job: job_ref("g:1", "j"),
            fence: Fence(300),
            outcome: Outcome::Retry { delay_ms: 5, reason: bytes("no") },
        }],
    };
    assert_eq!(encode(&settled.into_command()), b"\x00\x03\x01\x05g%3A1\x01j\xac\x02\x03\x05\x02no");
    let settled = SettleBulk {
        bulk: BulkRef { group: GroupId::new("g").unwrap(), id: BulkId::new("b").unwrap() },
        fence: Fence(300),
        summary: bytes("ok"),
        outcome: Aggregation::Done,
        callback: Some(Callback { id: JobId::new("c").unwrap(), payload: bytes("{}"), trace: None }),
    };
    assert_eq!(encode(&settled.into_command()), b"\x00\x11\x01g\x01b\xac\x02\x02ok\x00\x01\x01c\x02{}\x00");
    let rate = Rate::new(10, 1000, Some(2)).unwrap();
    let set = SetGroup {
        group: GroupId::new("g").unwrap(),
        patch: GroupPatch { rate: Some(Some(rate)), ..GroupPatch::default() },
        reset_congestion: true,
    };
    assert_eq!(encode(&set.into_command()), b"\x00\x06\x01g\x00\x00\x01\x01\x0a\xe8\x07\x02\x00\x00\x01");
    let answer: Result<Reply, WireError> =
        Ok(queue::Reply::Settle(Settled { verdicts: vec![Verdict::Applied, Verdict::Gone] }).into());
    assert_eq!(encode(&answer), b"\x00\x00\x03\x02\x00\x02");
    let enqueued: Result<Reply, WireError> = Ok(queue::Reply::Enqueue(Enqueued {
        receipts: vec![
            JobReceipt::Created,
            JobReceipt::Exists { bulk: None },
            JobReceipt::Differs { difference: Difference::Payload, bulk: Some(BulkId::new("b").unwrap()) },
        ],
        backlogs: vec![300, 300, 300],
    })
    .into());
    assert_eq!(
        encode(&enqueued),
        b"\x00\x00\x00\x03\x00\x01\x00\x02\x04\x01\x01b\x03\xac\x02\xac\x02\xac\x02"
    );
    let error: Result<Reply, WireError> = Err(WireError::Refused("full".into()));
    assert_eq!(encode(&error), b"\x01\x02\x04full");
    let wait = Wait { types: vec![TypeId::new("t").unwrap()], at_most_ms: 1000 };
    assert_eq!(encode(&wait), b"\x01\x01t\xe8\x07");
    assert_eq!(frame(&ScanStep::End), b"\x01\x00\x00\x00\x02");
    let last = Audit { suspects: vec![Suspect::Queue], repair: true };
    assert_eq!(encode(&last.into_command()), b"\x00\x22\x01\x06\x01");
}

/// The position of an operation in its capability is its number on the wire: new ones are appended.
#[test]
fn operations_keep_their_numbers() {
    let stems = [
        "enqueue",
        "lease",
        "extend",
        "settle",
        "promote",
        "reclaim",
        "set_group",
        "set_type",
        "remove_type",
        "set_queue",
        "admit",
        "open_bulk",
        "seal_bulk",
        "hold_bulk",
        "resume_bulk",
        "cancel_bulk",
        "lease_bulks",
        "settle_bulk",
        "cancel_job",
        "requeue_dead",
        "discard",
        "make_due",
        "sweep",
        "inspect_job",
        "inspect_group",
        "inspect_type",
        "inspect_bulk",
        "inspect_congestion",
        "inspect_queue",
        "list_groups",
        "list_bulks",
        "list_snapshots",
        "list_jobs",
        "explain",
        "audit",
        "report_progress",
        "list_largest_groups",
    ];
    assert_eq!(queue::Command::STEMS, stems);
    assert_eq!(
        encode(&Promote { jobs_max: 1 }.into_command())[..2],
        [0, 4],
        "the queue is the first capability"
    );
}

#[test]
fn the_largest_jobs_fit_what_is_kept_for_them() {
    let name = "x".repeat(NAME_BYTES_MAX);
    let job = job_ref(&name, &name);
    let (fence, most) = (Fence(u64::MAX), u64::MAX);
    let settlement = Settlement {
        job: job.clone(),
        fence,
        outcome: Outcome::Retry { delay_ms: most, reason: vec![0; NOTE_BYTES_MAX].into() },
    };
    assert!(encode(&settlement).len() <= NOTE_BYTES_MAX + JOB_BYTES_MAX);
    let leased = LeasedJob {
        job,
        type_id: TypeId::new(&name).unwrap(),
        level: Level::Low,
        cost: Cost::new(10_000).unwrap(),
        payload: vec![0; PAYLOAD_BYTES_MAX].into(),
        created_at: Micros(most),
        fence,
        attempt: u32::MAX,
        bulk: Some(BulkId::new(&name).unwrap()),
        trace: Some(
            fairlane_core::Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap(),
        ),
    };
    assert!(encode(&leased).len() <= PAYLOAD_BYTES_MAX + JOB_BYTES_MAX);
    let wait = Wait { types: vec![TypeId::new(&name).unwrap(); TYPES_MAX], at_most_ms: most };
    assert!(encode(&wait).len() <= WAIT_BYTES_MAX);
}

#[test]
fn a_value_that_its_constructor_rejects_is_not_decoded() {
    for name in [&b"\x00"[..], b"\x01\n", b"\x02a", b"\x01\xff"] {
        assert_eq!(decode::<GroupId>(name), Err(Undecodable), "{name:?}");
    }
    let long = [&[0x81, 0x01][..], &[b'x'; 129]].concat();
    assert_eq!(decode::<JobId>(&long), Err(Undecodable));
    assert_eq!(decode::<Cost>(&encode(&0_u32)), Err(Undecodable));
    assert_eq!(decode::<Cost>(&encode(&10_001_u32)), Err(Undecodable));
    assert_eq!(decode::<Weight>(&encode(&1001_u32)), Err(Undecodable));
    assert_eq!(decode::<Level>(&[3]), Err(Undecodable));
    for rate in [(0, 1000, 1), (1, 999, 1), (1, 1000, 0), (1, 86_400_000, 27), (u64::MAX, u64::MAX, u64::MAX)]
    {
        assert_eq!(decode::<Rate>(&encode(&rate)), Err(Undecodable), "{rate:?}");
    }
    assert_eq!(decode::<Rate>(&encode(&(7_u64, 1000_u64, 3_u64))), Ok(Rate::new(7, 1000, Some(3)).unwrap()));
}

#[test]
fn a_name_is_the_same_on_the_other_side() {
    for raw in ["a", "customer:42", "50%", "%3A", "고객-1"] {
        let name = GroupId::new(raw).unwrap();
        assert_eq!(encode(&name), encode(&name.escaped()));
        assert_eq!(decode(&encode(&name)), Ok(name));
    }
    assert_eq!(decode::<GroupId>(&encode(&"customer:42")), Err(Undecodable), "it is not escaped");
}

#[test]
fn a_list_with_more_than_a_command_takes_is_not_decoded() {
    let jobs = |count: usize| (0..count).map(|number| job_ref("g", &number.to_string())).collect();
    let cancel = |count| CancelJob { jobs: jobs(count) }.into_command();
    assert_eq!(decode(&encode(&cancel(500))), Ok(cancel(500)));
    assert_eq!(decode::<Command>(&encode(&cancel(501))), Err(Undecodable));
    let suspects = vec![Suspect::Queue; AUDIT_SUSPECTS_MAX + 1];
    let audit = Audit { suspects, repair: false }.into_command();
    assert_eq!(decode::<Command>(&encode(&audit)), Err(Undecodable));
    let types = vec![TypeId::new("t").unwrap(); TYPES_MAX + 1];
    let (worker, request) = (WorkerId::new("w").unwrap(), RequestNumber(1));
    let lease = Lease { worker, request, types, jobs_max: 1, lease_ms: 1000 }.into_command();
    assert_eq!(decode::<Command>(&encode(&lease)), Err(Undecodable));
}

#[test]
fn too_few_or_too_many_bytes_are_rejected() {
    let command = encode(&Promote { jobs_max: 7 }.into_command());
    assert!(decode::<Command>(&command).is_ok());
    for length in 0..command.len() {
        assert_eq!(decode::<Command>(&command[..length]), Err(Undecodable));
    }
    assert_eq!(decode::<Command>(&[&command[..], &[0]].concat()), Err(Undecodable));
}

#[test]
fn a_length_without_its_bytes_allocates_no_memory() {
    // A settlement with a note of 2^60 bytes, and a list of as many verdicts.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    let settle = [&b"\x00\x03\x01\x01g\x01j\x01\x00"[..], &huge].concat();
    assert_eq!(decode::<Command>(&settle), Err(Undecodable));
    let settled = [&b"\x00\x00\x03"[..], &huge].concat();
    assert_eq!(decode::<Result<Reply, WireError>>(&settled), Err(Undecodable));
}

#[test]
fn frames_come_out_however_the_bytes_are_cut() {
    let page = ScanPage { suspects: vec![Suspect::Queue], groups_scanned: 3, groups: 9 };
    let steps = [ScanStep::Page(page), ScanStep::Failed(WireError::Broken("gone".into())), ScanStep::End];
    let all: Vec<u8> = steps.iter().flat_map(frame).collect();
    for piece in 1..all.len() {
        let (mut frames, mut out) = (Frames::default(), Vec::<ScanStep>::new());
        for bytes in all.chunks(piece) {
            frames.push(bytes);
            while let Some(step) = frames.next_step().unwrap() {
                out.push(step);
            }
        }
        assert_eq!(out, steps, "in pieces of {piece}");
    }
}

#[test]
fn a_frame_that_is_too_long_is_rejected_by_its_length() {
    let mut frames = Frames::default();
    frames.push(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
    assert_eq!(frames.next_step::<ScanStep>(), Err(Undecodable));
}

#[test]
fn a_page_of_any_size_fits_its_frames() {
    let name = "x".repeat(NAME_BYTES_MAX);
    let page =
        ScanPage { suspects: vec![Suspect::Job(job_ref(&name, &name)); 2500], groups_scanned: 1, groups: 2 };
    let steps = ScanStep::pages(&page);
    let mut suspects = Vec::new();
    for step in &steps {
        assert!(frame(step).len() <= FRAME_BYTES_MAX);
        let ScanStep::Page(part) = step else { panic!("{step:?}") };
        assert_eq!((part.groups_scanned, part.groups), (1, 2));
        suspects.extend(part.suspects.clone());
    }
    assert_eq!((steps.len(), suspects), (3, page.suspects));
    assert_eq!(ScanStep::pages(&ScanPage::default()), [ScanStep::Page(ScanPage::default())]);
}

#[test]
fn an_error_keeps_its_kind_on_the_wire() {
    let there_and_back = |error: EngineError| {
        let error: WireError = decode(&encode(&WireError::from(error))).unwrap();
        EngineError::from(error)
    };
    let away = there_and_back(EngineError::Unavailable { engine: "redis", reason: "refused".into() });
    assert!(away.is_retryable());
    assert!(away.to_string().contains("the server cannot be reached: its redis cannot be reached: refused"));
    for error in [EngineError::refused("full"), EngineError::broken("stopped")] {
        assert_eq!(there_and_back(error.clone()), error);
    }
}
