//! The API description (OpenAPI 3.1), generated from the routes, and pages that show it offline.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use serde_json::Value;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, OpenApiBuilder, Ref, ResponseBuilder};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::access::{ROUTES, Verb};
use crate::api::openapi;
use crate::app::Shared;
use crate::guard::set_security_headers;
use crate::problem;

/// The name of the security scheme.
const SCHEME: &str = "key";

/// The content security policy of the pages; Swagger UI has inline styles and embedded images.
const PAGES_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The pattern of a name: no control characters. The schema counts its length in characters, the
/// server in bytes.
const NAME_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";

/// Adds the pattern of a name to every string of 1 to 128 characters: only names have these bounds.
fn add_name_patterns(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("minLength") == Some(&1.into()) && fields.get("maxLength") == Some(&128.into()) {
                fields.insert("pattern".to_owned(), NAME_PATTERN.into());
            }
            fields.values_mut().for_each(add_name_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(add_name_patterns),
        _ => {}
    }
}

/// Adds to each operation its error response, that it requires a key, and the permission it
/// requires.
pub(crate) fn with_access(mut api: OpenApi) -> OpenApi {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let problem =
        ResponseBuilder::new().description("A problem").content(problem::CONTENT_TYPE, problem).build();
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            responses.entry("default".to_owned()).or_insert_with(|| problem.clone().into());
        }
    }
    for route in ROUTES {
        let item = api.paths.paths.get_mut(route.path);
        let Some(operation) = item.and_then(|item| operation_of(item, route.method)) else { continue };
        operation.operation_id = Some(name_of(route.method, route.path));
        operation.security = Some(vec![SecurityRequirement::new(SCHEME, [] as [&str; 0])]);
        let permission = ExtensionsBuilder::new().add("x-fairlane-permission", route.permission.as_str());
        operation.extensions.get_or_insert_default().merge(permission.build());
    }
    let mut components = api.components.take().unwrap_or_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    OpenApiBuilder::from(api).components(Some(components)).build()
}

/// The operation id: `GET /api/jobs/{group}/{job}` is `get_jobs_group_job`. Generators name
/// functions by it.
fn name_of(method: Verb, path: &str) -> String {
    let words = path.split(['/', '-', '{', '}']).filter(|word| !word.is_empty() && *word != "api");
    let method = method.as_str().to_lowercase();
    [method.as_str()].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

fn operation_of(item: &mut PathItem, method: Verb) -> Option<&mut Operation> {
    match method {
        Verb::Get => item.get.as_mut(),
        Verb::Post => item.post.as_mut(),
        Verb::Patch => item.patch.as_mut(),
        Verb::Delete => item.delete.as_mut(),
    }
}

/// The description as it is served and checked in: serialized once and never copied.
static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut api = serde_json::to_value(openapi()).expect("a description can be serialized");
    add_name_patterns(&mut api);
    let mut text = serde_json::to_string_pretty(&api).expect("a description can be serialized");
    text.push('\n');
    text.into()
});

/// `/openapi.json`, and `/docs` to read it; neither requires a key or a network.
pub(crate) fn routes() -> Router<Shared> {
    let show = || async {
        let mut response = ([(header::CONTENT_TYPE, "application/json")], TEXT.clone()).into_response();
        set_security_headers(&mut response);
        response
    };
    let config = Config::from("/openapi.json").validator_url("none").persist_authorization(false);
    let pages: Router<Shared> = SwaggerUi::new("/docs").config(config).into();
    Router::new().route("/openapi.json", get(show)).merge(pages.layer(map_response(protected)))
}

/// Forbids other sites to show the pages in a frame, and the pages to load anything from elsewhere.
async fn protected(mut response: Response) -> Response {
    for (name, value) in [
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, PAGES_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::Request;
    use fairlane::Fairlane;
    use http_body_util::BodyExt;
    use tower::Service;

    use super::*;
    use crate::app::App;
    use crate::settings::ServerSettings;

    #[tokio::test]
    async fn the_description_is_serialized_once_and_not_copied_for_each_request() {
        for _ in 0..2 {
            let fairlane = Fairlane::open("memory:").await.unwrap();
            let app = Arc::new(App::new(fairlane, None, ServerSettings::default()));
            let mut router: Router = routes().with_state(app);
            let request = Request::get("/openapi.json").body(axum::body::Body::empty()).unwrap();
            let response = router.call(request).await.unwrap();
            let chunk = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(chunk.as_ptr(), TEXT.as_ptr());
        }
    }
}
