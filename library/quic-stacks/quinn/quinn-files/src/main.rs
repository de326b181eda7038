// SPDX-License-Identifier: GPL-3.0-or-later
//! Serves the files of a directory over HTTP/3 with quinn, until SIGTERM: `quinn-files files PORT
//! DIRECTORY`. The environment has the congestion control (QUIC_CC: reno, cubic or bbr) and the number
//! of threads (QUIC_THREADS).

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use h3::server::RequestResolver;
use http::{Method, Response, StatusCode};
use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicServerConfig;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{signal, SignalKind};

type Failure = Box<dyn Error + Send + Sync>;

const READ_BYTES: usize = 64 << 10;
/// What may be under way over a satellite: quinn's own 10 MB are less than its window may become.
const SEND_WINDOW: u64 = 64 << 20;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [command, port, directory] = words.as_slice() else {
        return Err("usage: quinn-files files PORT DIRECTORY".into());
    };
    if command != "files" {
        return Err(format!("{command:?} is no command: files").into());
    }
    let settings = server_config(&std::env::var("QUIC_CC")?)?;
    let threads = std::env::var("QUIC_THREADS")?.parse()?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse()?));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?
        .block_on(serve(settings, address, directory.into()))
}

/// A server's settings, with a certificate that it makes.
fn server_config(cc: &str) -> Result<quinn::ServerConfig, Failure> {
    let made = rcgen::generate_simple_self_signed(["openbach-run".to_string()])?;
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut transport = quinn::TransportConfig::default();
    transport.send_window(SEND_WINDOW);
    match cc {
        "reno" => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "bbr" => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
        _ => return Err(format!("QUIC_CC is {cc}: reno, cubic or bbr").into()),
    };
    let mut settings = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    settings.transport_config(Arc::new(transport));
    Ok(settings)
}

async fn serve(
    settings: quinn::ServerConfig,
    address: SocketAddr,
    root: PathBuf,
) -> Result<(), Failure> {
    let endpoint = quinn::Endpoint::server(settings, address)?;
    let mut stop = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = stop.recv() => break,
            Some(incoming) = endpoint.accept() => {
                let root = root.clone();
                tokio::spawn(async move {
                    if let Err(failure) = answer_all(incoming, root).await {
                        eprintln!("a connection ended: {failure}");
                    }
                });
            }
        }
    }
    endpoint.close(0u32.into(), b"");
    Ok(())
}

async fn answer_all(incoming: quinn::Incoming, root: PathBuf) -> Result<(), Failure> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut requests: h3::server::Connection<_, Bytes> = h3::server::Connection::new(connection).await?;
    while let Some(request) = requests.accept().await? {
        let root = root.clone();
        tokio::spawn(async move {
            if let Err(failure) = answer(request, &root).await {
                eprintln!("a request ended: {failure}");
            }
        });
    }
    Ok(())
}

async fn answer(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    root: &Path,
) -> Result<(), Failure> {
    let (asked, mut stream) = request.resolve_request().await?;
    // To its end: quinn would tell the client to stop sending, which ngtcp2 takes for a reset.
    while stream.recv_data().await?.is_some() {}
    let name = Path::new(asked.uri().path().trim_start_matches('/'));
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    let opened = match is_below {
        true => tokio::fs::File::open(root.join(name)).await.ok(),
        false => None,
    };
    let Some(mut file) = opened else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        return Ok(stream.finish().await?);
    };
    let length = file.metadata().await?.len();
    let head = Response::builder().header("content-length", length).body(())?;
    stream.send_response(head).await?;
    let has_body = asked.method() != Method::HEAD;
    while has_body {
        let mut part = vec![0; READ_BYTES];
        let count = file.read(&mut part).await?;
        if count == 0 {
            break;
        }
        part.truncate(count);
        stream.send_data(part.into()).await?;
    }
    Ok(stream.finish().await?)
}
