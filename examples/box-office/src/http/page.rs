//! The page: three files without a build step, which load nothing from elsewhere.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

pub async fn index() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("../../page/index.html"))
}

pub async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../page/style.css"))
}

pub async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../../page/app.js"))
}
