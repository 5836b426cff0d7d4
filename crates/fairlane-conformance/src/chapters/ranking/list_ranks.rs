//! `list_ranks`: a page of a board: its top, any other part, or the neighbours of a member.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    empty_board_is_an_empty_list,
    pages_follow_each_other,
    neighbours_stand_around_a_member,
    equal_scores_share_a_competition_rank,
    unknown_board_is_none,
];

async fn empty_board_is_an_empty_list(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let page = boards.ranks(Standing::All, PageStart::Behind(0), 10).await;
    assert_eq!(page, RankPage { entries: vec![], members: 0, decimals: 0 });
    assert_eq!(boards.standing(Standing::Season { number: 1 }).await, []);
}

async fn counts(boards: &Subject, counts: &[(&str, u64)]) {
    boards.board_by(BoardRule::Count).await;
    for (member, count) in counts {
        for number in 0..*count {
            boards.count(&format!("{member}{number}"), member).await;
        }
    }
}

fn members(page: &RankPage) -> Vec<String> {
    page.entries.iter().map(|entry| entry.member.to_string()).collect()
}

async fn pages_follow_each_other(boards: Subject) {
    counts(&boards, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]).await;
    let page = boards.ranks(Standing::All, PageStart::Behind(2), 2).await;
    assert_eq!((members(&page), page.members), (vec!["c".to_owned(), "b".to_owned()], 5));
    assert_eq!(page.entries[0].position, 3);
    assert_eq!(members(&boards.ranks(Standing::All, PageStart::Behind(5), 2).await), [""; 0]);
}

async fn neighbours_stand_around_a_member(boards: Subject) {
    counts(&boards, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]).await;
    let around = |member: &str| PageStart::Around { member: member_id(member), before: 1 };
    assert_eq!(members(&boards.ranks(Standing::All, around("c"), 3).await), ["d", "c", "b"]);
    assert_eq!(members(&boards.ranks(Standing::All, around("e"), 3).await), ["e", "d", "c"]);
    assert_eq!(members(&boards.ranks(Standing::All, around("x"), 3).await), [""; 0]);
}

async fn equal_scores_share_a_competition_rank(boards: Subject) {
    counts(&boards, &[("a", 3), ("b", 2), ("c", 2), ("d", 1)]).await;
    let page = boards.ranks(Standing::All, PageStart::Behind(0), 10).await;
    let ranks: Vec<_> = page.entries.iter().map(|entry| (entry.position, entry.rank)).collect();
    assert_eq!(ranks, [(1, 1), (2, 2), (3, 2), (4, 4)]);
    let second = boards.ranks(Standing::All, PageStart::Behind(2), 10).await;
    assert_eq!(second.entries[0].rank, 2, "the page begins within a tie");
}

async fn unknown_board_is_none(boards: Subject) {
    let (standing, start) = (Standing::All, PageStart::Behind(0));
    let command = ListRanks { board: board_name("popular"), standing, start, members_max: 1 };
    assert_eq!(boards.engine.call(command).await.expect("an answer"), RanksListed(None));
}
