//! The address of a Redis, and connections to it.
//!
//! `redis://` and `rediss://` name one server, `redis+cluster://` and `rediss+cluster://` some
//! nodes of a cluster. With TLS, `?ca=FILE` names a CA to trust instead of those of the system,
//! `?cert=FILE&key=FILE` the certificate of the client, and `?insecure` accepts any server. The
//! files are read for each new connection, so that a renewed certificate is used without a restart.

use std::sync::Once;
use std::time::Duration;

use ::redis::aio::{AsyncPushSender, MultiplexedConnection};
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ProtocolVersion, RedisError, TlsCertificates, TlsMode,
};

use crate::engine::EngineError;
use crate::open::without_user;

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The response timeout on a cluster. A blocking pop needs none of its own, because
/// its caller has one.
const CLUSTER_RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);
const CLUSTER_RETRIES: u32 = 3;
const SCHEMES: [&str; 4] = ["redis", "rediss", "redis+cluster", "rediss+cluster"];

/// Whether this is a scheme of Redis.
pub(crate) fn is_redis(scheme: &str) -> bool {
    SCHEMES.contains(&scheme)
}

/// A parsed address.
pub(super) struct Address {
    /// The address without secrets, for display.
    shown: String,
    /// The URLs for the client: one for a server, several for a cluster.
    nodes: Vec<String>,
    is_cluster: bool,
    tls: Option<Tls>,
}

/// The certificates of both sides of a TLS connection.
#[derive(Debug, Default)]
struct Tls {
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    insecure: bool,
}

/// A connection of the client library.
#[derive(Clone)]
pub(super) enum Line {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Address {
    /// Parses an address without its `prefix` and checks that it can be used, without connecting.
    pub fn read(url: &str) -> Result<Self, EngineError> {
        let shown = without_user(url);
        let (plain, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
        let (is_cluster, has_tls) = (scheme.ends_with("+cluster"), scheme.starts_with("rediss"));
        if rest.contains('#') {
            return Err(bad_address(&shown, "a # has no meaning in it (in a password, write %23)"));
        }
        let (tls, query) = options(query, has_tls).map_err(|reason| bad_address(&shown, &reason))?;
        let scheme = if has_tls { "rediss" } else { "redis" };
        // The user and password before the first node of a cluster apply to all nodes.
        let (user, hosts) =
            rest.rsplit_once('@').map_or((String::new(), rest), |(user, hosts)| (format!("{user}@"), hosts));
        let hosts: Vec<&str> = if is_cluster { hosts.split(',').collect() } else { vec![hosts] };
        let fragment = if tls.as_ref().is_some_and(|tls| tls.insecure) { "#insecure" } else { "" };
        let nodes = hosts.iter().map(|host| format!("{scheme}://{user}{host}{query}{fragment}")).collect();
        let address = Self { shown, nodes, is_cluster, tls };
        address.check()?;
        Ok(address)
    }

    pub fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The name of the user in Redis' access control lists.
    pub fn user(&self) -> String {
        let url = ::redis::parse_redis_url(&self.nodes[0]);
        let user = url.map(|url| url.username().to_owned()).filter(|user| !user.is_empty());
        user.unwrap_or_else(|| "default".to_owned())
    }

    /// Opens a new connection; the name is resolved each time.
    pub async fn connect(&self, response_timeout: Option<Duration>) -> Result<Line, RedisError> {
        if self.is_cluster {
            let client = self.cluster_client(response_timeout)?.build()?;
            return client.get_async_connection().await.map(Line::Cluster);
        }
        let client = self.client(&self.nodes[0])?;
        let config = config(response_timeout);
        client.get_multiplexed_async_connection_with_config(&config).await.map(Line::Single)
    }

    /// Opens a new connection that can subscribe to channels; `receive` gets their messages.
    pub async fn connect_for_messages(
        &self,
        response_timeout: Duration,
        receive: impl AsyncPushSender,
    ) -> Result<Line, RedisError> {
        if self.is_cluster {
            let client = self.cluster_client(Some(response_timeout))?;
            let client = client.use_protocol(ProtocolVersion::RESP3).push_sender(receive).build()?;
            return client.get_async_connection().await.map(Line::Cluster);
        }
        let (url, fragment) = self.nodes[0].split_once('#').unwrap_or((&self.nodes[0], ""));
        let mark = if url.contains('?') { '&' } else { '?' };
        let client = self.client(&format!("{url}{mark}protocol=resp3#{fragment}"))?;
        let config = config(Some(response_timeout)).set_push_sender(receive);
        client.get_multiplexed_async_connection_with_config(&config).await.map(Line::Single)
    }

    fn check(&self) -> Result<(), EngineError> {
        let checked = match self.is_cluster {
            true => self.cluster_client(None).and_then(ClusterClientBuilder::build).map(drop),
            false => self.client(&self.nodes[0]).map(drop),
        };
        checked.map_err(|error| bad_address(&self.shown, &error.to_string()))
    }

    fn client(&self, url: &str) -> Result<Client, RedisError> {
        match &self.tls {
            Some(tls) => Client::build_with_tls(url, tls.certificates()?),
            None => Client::open(url),
        }
    }

    fn cluster_client(&self, response_timeout: Option<Duration>) -> Result<ClusterClientBuilder, RedisError> {
        let mut builder = ClusterClient::builder(self.nodes.iter().map(String::as_str))
            .connection_timeout(CONNECTION_TIMEOUT)
            .retries(CLUSTER_RETRIES)
            .response_timeout(response_timeout.unwrap_or(CLUSTER_RESPONSE_TIMEOUT));
        if let Some(tls) = &self.tls {
            let mode = if tls.insecure { TlsMode::Insecure } else { TlsMode::Secure };
            builder = builder.tls(mode).certs(tls.certificates()?);
        }
        Ok(builder)
    }
}

fn config(response_timeout: Option<Duration>) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(response_timeout)
}

impl Tls {
    fn certificates(&self) -> Result<TlsCertificates, RedisError> {
        install_provider();
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
            }
            _ => None,
        };
        Ok(TlsCertificates { client_tls, root_cert: self.ca.as_deref().map(read).transpose()? })
    }
}

/// Installs the cryptography provider for TLS connections, unless the application has
/// installed another.
fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn read(path: &str) -> Result<Vec<u8>, RedisError> {
    std::fs::read(path).map_err(|error| std::io::Error::new(error.kind(), format!("{path}: {error}")).into())
}

/// Removes the TLS options from a query; the client reads the rest.
fn options(query: &str, has_tls: bool) -> Result<(Option<Tls>, String), String> {
    let (mut tls, mut rest) = (Tls::default(), Vec::new());
    let url = ::redis::parse_redis_url(&format!("redis://host/?{query}"));
    for (name, value) in url.iter().flat_map(|url| url.query_pairs()) {
        let known = ["ca", "cert", "key", "insecure"].contains(&&*name);
        if known && !has_tls {
            return Err(format!("?{name} is an option of TLS; write rediss://"));
        }
        match &*name {
            "ca" => tls.ca = Some(value.into_owned()),
            "cert" => tls.certificate = Some(value.into_owned()),
            "key" => tls.key = Some(value.into_owned()),
            "insecure" if value.is_empty() => tls.insecure = true,
            "insecure" => return Err("?insecure takes no value".to_owned()),
            _ => rest.push(format!("{name}={value}")),
        }
    }
    if tls.certificate.is_some() != tls.key.is_some() {
        return Err("?cert and ?key belong together; name both files".to_owned());
    }
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((has_tls.then_some(tls), rest))
}

fn bad_address(shown: &str, reason: &str) -> EngineError {
    EngineError::refused(format!(
        "{shown:?} is not a Redis address: {reason}; write redis://host:port, or rediss://host:port for TLS"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Address::read(url).err().expect("it cannot be an address").to_string()
    }

    #[test]
    fn a_cluster_shares_the_user_of_its_first_node() {
        let address = Address::read("redis+cluster://me:secret@a:1,b:2").unwrap();
        assert_eq!(address.nodes, ["redis://me:secret@a:1", "redis://me:secret@b:2"]);
        assert_eq!((address.user(), address.is_cluster()), ("me".to_owned(), true));
        assert_eq!(Address::read("redis://:secret@a:1").unwrap().user(), "default");
    }

    #[test]
    fn tls_options_need_rediss_and_belong_together() {
        assert!(refusal("redis://h:1?ca=/x").contains("write rediss://"));
        assert!(refusal("rediss://h:1?cert=/x").contains("name both files"));
        assert!(refusal("rediss://h:1?insecure=1").contains("takes no value"));
        let missing = refusal("rediss://me:secret@h:1?ca=/no/such/file");
        assert!(missing.contains("/no/such/file") && !missing.contains("secret"), "{missing}");
    }

    #[test]
    fn an_insecure_connection_has_to_be_requested() {
        let insecure = |url: &str| Address::read(url).unwrap().nodes[0].ends_with("#insecure");
        assert!(!insecure("rediss://h:1"));
        assert!(insecure("rediss://h:1?insecure"));
        assert!(refusal("rediss://h:1#insecure").contains("not a Redis address"));
    }
}
