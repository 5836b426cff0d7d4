//! Lists that are longer than a page.

/// Reads pages until there are `limit` items or no more of them. `read` gets where a page begins and
/// its size, and returns its items and where the next page begins.
pub async fn read_pages<T, C, E>(
    limit: usize,
    page_max: usize,
    read: impl AsyncFn(Option<C>, usize) -> Result<(Vec<T>, Option<C>), E>,
) -> Result<Vec<T>, E> {
    let (mut items, mut next) = (Vec::new(), None);
    while items.len() < limit {
        let page;
        (page, next) = read(next, (limit - items.len()).min(page_max)).await?;
        items.extend(page);
        if next.is_none() {
            break;
        }
    }
    Ok(items)
}
