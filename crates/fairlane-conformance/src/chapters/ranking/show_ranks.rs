//! `show_ranks`: the ranks of some members.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![members_are_shown_as_asked, ascending_board_counts_from_the_smallest];

async fn members_are_shown_as_asked(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    for (id, member) in [("e1", "one"), ("e2", "two"), ("e3", "two"), ("e4", "three")] {
        boards.count(id, member).await;
    }
    let members = ["three", "none", "two"].map(member_id).to_vec();
    let command = ShowRanks { board: board_name("popular"), standing: Standing::All, members };
    let page = boards.engine.call(command).await.expect("an answer").0.expect("the board exists");
    let shown: Vec<_> =
        page.entries.iter().map(|entry| (entry.member.to_string(), entry.score, entry.rank)).collect();
    assert_eq!(shown, [("three".into(), 1, 2), ("two".into(), 2, 1)]);
    assert_eq!(page.members, 3);
}

async fn ascending_board_counts_from_the_smallest(boards: Subject) {
    let (rule, order) = (BoardRule::Latest, BoardOrder::Ascending);
    boards.set_board(BoardSettings { rule, order, ..BoardSettings::default() }).await;
    for (member, value) in [("one", 30), ("two", 20), ("three", 20), ("four", 10)] {
        boards.set_score(member, 1, value).await;
    }
    let members = ["one", "two", "four"].map(member_id).to_vec();
    let command = ShowRanks { board: board_name("popular"), standing: Standing::All, members };
    let page = boards.engine.call(command).await.expect("an answer").0.expect("the board exists");
    assert_eq!(page.entries.iter().map(|entry| entry.rank).collect::<Vec<_>>(), [4, 2, 1]);
}
