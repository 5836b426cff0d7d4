//! The fields of forms.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::app::Shared;
use crate::extract::{body_up_to, check_content_type, plain};
use crate::problem::{Problem, ProblemKind};

/// The largest form in bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// The fields of a form.
pub(super) struct Form<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        check_content_type(request.headers(), "application/x-www-form-urlencoded")?;
        let body = body_up_to(FORM_BYTES_MAX, request, app).await?;
        serde_urlencoded::from_bytes(&body)
            .map(Self)
            .map_err(|error| ProblemKind::Invalid.because(plain(&error.to_string())))
    }
}

/// The content of a field; `None` if it was left empty.
pub(super) fn filled(field: Option<String>) -> Option<String> {
    field.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A whole number in a field.
pub(super) fn number(name: &str, text: &str) -> Result<u32, Problem> {
    let text = text.trim();
    text.parse().map_err(|_| {
        ProblemKind::Invalid
            .because(format!("{name}: {text:?} is not a whole number, such as 20; go back and correct it"))
    })
}
