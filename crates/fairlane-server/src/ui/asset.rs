//! The style sheet, the script and the icon. Their names contain a hash of their content, so that
//! browsers may cache them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// One file.
pub(super) struct Asset {
    /// The name with the hash.
    pub name: String,
    content_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, content_type: &'static str, text: &'static str) -> Self {
        let hash: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { name: format!("{stem}.{hash}.{extension}"), content_type, text }
    }
}

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", include_str!("assets/style.css")));
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("script", "js", "text/javascript; charset=utf-8", include_str!("assets/script.js"))
});
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let known = [&*STYLE, &*SCRIPT, &*ICON];
    match known.into_iter().find(|asset| asset.name == name) {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.content_type),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
            ];
            (headers, asset.text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such file; reload the page").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_styles_are_small() {
        let bytes = STYLE.text.len() + SCRIPT.text.len();
        assert!(bytes <= 150_000, "{bytes}");
    }
}
