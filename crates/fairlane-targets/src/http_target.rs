//! Posts the payload of each job to a URL; the status of the response is the outcome of the
//! attempt.
//!
//! | response | outcome |
//! |---|---|
//! | 2xx | done; the body is the result |
//! | 429, or 503 with Retry-After | throttled |
//! | 408, other 5xx, no complete response | retry |
//! | 3xx, other 4xx, a body too long to store | failed |
//!
//! Invariant: no more of a body is read than can be stored. Left out on purpose: following
//! redirects, which would send the payload and its headers to an address that was not configured.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use fairlane_core::limits::NOTE_BYTES_MAX;
use fairlane_worker::{BoxFuture, Context, Outcome, Processor};
use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, TRANSFER_ENCODING,
};
use reqwest::{Client, Response, StatusCode, Url};

use crate::call::{Call, InHeader};
use crate::client::{BadTarget, Certificates, client, http_url, no_response, origin};
use crate::response::{describe, drain, excerpt, read_prefix, retry_after};

/// The settings of an HTTP target.
#[derive(Clone)]
pub struct HttpSettings {
    /// The http or https URL.
    pub url: String,
    /// The content type of the payload.
    pub content_type: String,
    /// Additional headers; values are never shown.
    pub headers: Vec<(String, String)>,
    /// The timeout for connecting.
    pub connect_timeout: Duration,
    /// The timeout of the complete request, from connecting to the end of the response.
    pub timeout: Duration,
}

impl HttpSettings {
    /// Settings for JSON payloads to this URL, with timeouts of 5 seconds for connecting and 30
    /// seconds in total.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        }
    }

    /// The origin of the URL, without credentials, path and query, any of which can be secret.
    pub fn origin(&self) -> String {
        http_url(&self.url).map_or_else(|_| "(invalid URL)".to_owned(), |url| origin(&url))
    }
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpSettings")
            .field("url", &self.origin())
            .field("content_type", &self.content_type)
            .field("headers", &names)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Posts payloads to a URL.
///
/// ```
/// use fairlane_targets::{HttpSettings, HttpTarget};
///
/// let settings = HttpSettings {
///     headers: vec![("authorization".into(), "Bearer secret".into())],
///     ..HttpSettings::new("http://mailer.internal/send")
/// };
/// assert!(!format!("{settings:?}").contains("secret"));
/// let target = HttpTarget::new(settings)?;
/// # fn is_processor(_: impl fairlane_worker::Processor) {}
/// # is_processor(target);
/// # Ok::<(), fairlane_targets::BadTarget>(())
/// ```
pub struct HttpTarget {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl HttpTarget {
    /// Makes a target; an error if the settings are invalid.
    pub fn new(settings: HttpSettings) -> Result<Self, BadTarget> {
        let url = http_url(&settings.url)?;
        let content_type = HeaderValue::from_str(&settings.content_type)
            .map_err(|_| BadTarget("the content type is not a valid header value".to_owned()))?;
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        for (name, value) in &settings.headers {
            let (name, value) = user_header(name, value)?;
            headers.append(name, value);
        }
        let is_https = url.scheme() == "https";
        let certificates = if is_https { Certificates::Required } else { Certificates::Optional };
        let client = client(settings.connect_timeout, settings.timeout, certificates, |builder| builder)?;
        Ok(Self { client, url, headers })
    }

    async fn call(&self, call: Call) -> Outcome {
        let request =
            self.client.post(self.url.clone()).headers(self.headers.clone()).headers(job_headers(&call));
        match request.body(call.payload).send().await {
            Ok(response) => outcome_of(response).await,
            Err(error) => no_response(error),
        }
    }
}

impl Processor for HttpTarget {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(self.call(Call::new(&job)))
    }
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget").field("url", &origin(&self.url)).finish_non_exhaustive()
    }
}

/// Validates a configured header. It must not replace those that identify the job or give the
/// length of the body.
pub(crate) fn user_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), BadTarget> {
    let bad = |what: &str| BadTarget(format!("the header {name:?} {what}"));
    let header = HeaderName::from_str(name).map_err(|_| bad("is not a valid header name"))?;
    if header == CONTENT_TYPE {
        return Err(bad("has a setting of its own: content_type"));
    }
    let ours =
        header == "idempotency-key" || header == "traceparent" || header.as_str().starts_with("fairlane-");
    if ours || [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&header) {
        return Err(bad("is set by the worker and cannot be given"));
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| bad("has an invalid value"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

fn job_headers(call: &Call) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: String| {
        headers.insert(name, HeaderValue::try_from(value).expect("an encoded name is a header value"));
    };
    set("idempotency-key", call.idempotency_key());
    set("fairlane-group", call.group.in_header());
    set("fairlane-job", call.job.in_header());
    set("fairlane-type", call.type_id.in_header());
    set("fairlane-attempt", call.attempt.to_string());
    set("fairlane-fence", call.fence.to_string());
    if let Some(bulk) = &call.bulk {
        set("fairlane-bulk", bulk.in_header());
    }
    if let Some(trace) = &call.trace {
        set("traceparent", trace.clone());
    }
    headers
}

async fn outcome_of(response: Response) -> Outcome {
    let status = response.status();
    let delay = retry_after(response.headers(), SystemTime::now());
    let code = format!("http_{}", status.as_u16());
    match status {
        _ if status.is_success() => succeeded(response).await,
        _ if throttles(status, delay) => {
            drain(response).await;
            Outcome::throttled(delay)
        }
        StatusCode::REQUEST_TIMEOUT => Outcome::retry(code, describe(response).await),
        _ if status.is_server_error() => Outcome::retry(code, describe(response).await),
        _ if status.is_redirection() => redirected(&response),
        _ => Outcome::failed(code, describe(response).await),
    }
}

/// Whether a response means that the downstream is overloaded: a 503 does only with Retry-After.
fn throttles(status: StatusCode, delay: Option<Duration>) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE && delay.is_some()
}

async fn succeeded(mut response: Response) -> Outcome {
    let announced = response.content_length().unwrap_or(0);
    if announced > NOTE_BYTES_MAX as u64 {
        return too_large(response.status());
    }
    match read_prefix(&mut response, NOTE_BYTES_MAX).await {
        Ok(body) if body.is_complete => Outcome::done_bytes(body.bytes),
        Ok(_) => too_large(response.status()),
        Err(error) => no_response(error),
    }
}

fn too_large(status: StatusCode) -> Outcome {
    let message = format!(
        "it responded {status} with a body of more than {NOTE_BYTES_MAX} bytes, the most that is stored with a job; \
         respond with less (204 is enough), or store the result elsewhere and respond with a reference"
    );
    Outcome::failed("result_too_large", message)
}

fn redirected(response: &Response) -> Outcome {
    let location = response.headers().get(LOCATION).map_or(&b""[..], HeaderValue::as_bytes);
    let (status, location) = (response.status(), excerpt(location));
    let message = format!(
        "it responded {status} with the location {location:?}; redirects are not followed: set the final URL"
    );
    Outcome::failed("redirect", message)
}

#[cfg(test)]
mod tests;
