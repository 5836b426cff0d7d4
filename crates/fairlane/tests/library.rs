//! The library as an application uses it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod library {
    pub mod bulk;
    pub mod callbacks;
    pub mod dead;
    pub mod enqueue;
    pub mod examples;
    pub mod export;
    pub mod limits;
    pub mod lossy;
    pub mod readme;
}
