//! Who runs: the slots of a worker, and how many of them each type may have.
//!
//! A class is a set of types that are asked for together: all those without a limit of their own, and each
//! other type alone, so that no lease gives more jobs of a type than it has room for.

use std::collections::HashMap;
use std::sync::Mutex;

use fairlane_core::TypeId;
use tokio::sync::Notify;

pub(crate) struct Slots {
    classes: Vec<Class>,
    class_of: HashMap<TypeId, usize>,
    taken: Mutex<Taken>,
    freed: Notify,
}

struct Class {
    types: Vec<TypeId>,
    limit: Option<usize>,
    own: bool,
}

/// What a type may have.
pub(crate) struct TypeSlots {
    pub type_id: TypeId,
    /// Most jobs at a time.
    pub limit: Option<usize>,
    /// Whether its slots are its own, beside those that the other types share.
    pub own: bool,
}

/// Signed, because a batch that is asked for again after an error can be larger than the room there is by then.
struct Taken {
    free: i64,
    by_class: Vec<i64>,
}

/// Room for jobs of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub class: usize,
    pub jobs: usize,
}

impl Slots {
    pub fn new(count: usize, types: Vec<TypeSlots>) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = HashMap::new();
        for TypeSlots { type_id, limit, own } in types {
            let shared = classes.iter().position(|class| limit.is_none() && class.limit.is_none());
            let class = shared.unwrap_or_else(|| {
                classes.push(Class { types: Vec::new(), limit, own });
                classes.len() - 1
            });
            classes[class].types.push(type_id.clone());
            class_of.insert(type_id, class);
        }
        let taken = Taken { free: count as i64, by_class: vec![0; classes.len()] };
        Self { classes, class_of, taken: Mutex::new(taken), freed: Notify::new() }
    }

    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    pub fn types(&self, class: usize) -> &[TypeId] {
        &self.classes[class].types
    }

    /// How many jobs of this class could start.
    pub fn room(&self, class: usize) -> usize {
        self.room_of(&self.taken(), class).max(0) as usize
    }

    /// How many jobs hold a slot.
    pub fn in_use(&self) -> usize {
        self.taken().by_class.iter().sum::<i64>().max(0) as usize
    }

    pub fn take(&self, type_id: &TypeId) {
        let mut taken = self.taken();
        self.move_one(&mut taken, type_id, 1);
    }

    pub fn give_back(&self, type_id: &TypeId) {
        {
            let mut taken = self.taken();
            self.move_one(&mut taken, type_id, -1);
        }
        self.freed.notify_one();
    }

    /// Resolves when a slot has been given back since the last call.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    fn room_of(&self, taken: &Taken, class: usize) -> i64 {
        let limit = self.classes[class].limit.map_or(i64::MAX, |limit| limit as i64);
        let room = limit - taken.by_class[class];
        if self.classes[class].own { room } else { room.min(taken.free) }
    }

    fn move_one(&self, taken: &mut Taken, type_id: &TypeId, by: i64) {
        let class = self.class_of.get(type_id).copied();
        if !class.is_some_and(|class| self.classes[class].own) {
            taken.free -= by;
        }
        if let Some(class) = class {
            taken.by_class[class] += by;
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().expect("nothing panics while it holds the slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(name: &str) -> TypeId {
        TypeId::new(name).unwrap()
    }

    #[test]
    fn types_without_a_limit_are_asked_for_together_and_the_others_alone() {
        let limits = [("mail", None), ("push", Some(2)), ("sms", None)];
        let types = limits.map(|(name, limit)| TypeSlots { type_id: type_of(name), limit, own: false });
        let slots = Slots::new(3, types.into());
        assert_eq!(slots.types(0), [type_of("mail"), type_of("sms")]);
        assert_eq!((slots.room(0), slots.room(1)), (3, 2));
        slots.take(&type_of("push"));
        slots.take(&type_of("push"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0), "push has all it may");
        slots.take(&type_of("mail"));
        slots.take(&type_of("mail"));
        assert_eq!(slots.room(0), 0, "more was taken than there is");
        slots.give_back(&type_of("push"));
        assert_eq!(slots.room(0), 0);
        slots.give_back(&type_of("mail"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 1));
    }
    #[test]
    fn slots_of_a_types_own_are_beside_those_of_the_others() {
        let own = TypeSlots { type_id: type_of("callback"), limit: Some(2), own: true };
        let shared = TypeSlots { type_id: type_of("mail"), limit: None, own: false };
        let slots = Slots::new(1, vec![shared, own]);
        slots.take(&type_of("callback"));
        slots.take(&type_of("callback"));
        assert_eq!((slots.room(0), slots.room(1)), (1, 0));
        slots.take(&type_of("mail"));
        slots.give_back(&type_of("callback"));
        assert_eq!((slots.room(0), slots.room(1), slots.in_use()), (0, 1, 2));
    }
}
