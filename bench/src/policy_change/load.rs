//! HTTP/1.1 load on kept connections: each sends a request, reads its answer, and notes how long that
//! took and under which revision it was answered.

use anyhow::{Context, ensure};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Time at which the request was sent.
    pub(crate) sent: Instant,
    /// Until the whole answer was there, from the moment at which the request was due.
    pub(crate) took: Duration,
    /// The revision that it names; 0: none.
    pub(crate) revision: u64,
}

/// Answers every request with the same few bytes, on a free port of loopback until the runtime ends.
pub(crate) async fn application() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    let mut seen: Vec<u8> = Vec::new();
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        seen.extend(buffer.iter().take(read));
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
        }
    }
}

/// Settings of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Target address.
    pub(crate) target: SocketAddr,
    /// Connections.
    pub(crate) connections: u32,
    /// Requests per second of all of them.
    pub(crate) rate: f64,
}

impl Load {
    /// Runs until `stop`; every answer.
    pub(crate) async fn run(self, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<Answer>> {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..self.connections {
            tasks.spawn(self.connection(number, Arc::clone(&stop)));
        }
        let mut answers = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            answers.extend(ended??);
        }
        Ok(answers)
    }

    async fn connection(self, number: u32, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<Answer>> {
        let mut stream = TcpStream::connect(self.target).await?;
        stream.set_nodelay(true)?;
        let interval = Duration::from_secs_f64(f64::from(self.connections) / self.rate);
        let mut due =
            Instant::now() + interval.mul_f64(f64::from(number) / f64::from(self.connections));
        let mut answers = Vec::new();
        let mut buffer = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep_until(due.into()).await;
            let sent = Instant::now();
            stream.write_all(b"GET /zz/x HTTP/1.1\r\nhost: web.test\r\n\r\n").await?;
            let mut filled = 0;
            let revision = loop {
                let read = stream.read(buffer.get_mut(filled..).context("a long answer")?).await?;
                ensure!(read > 0, "the proxy closed a connection");
                filled += read;
                if let Some(revision) = whole(buffer.get(..filled).unwrap_or_default())? {
                    break revision;
                }
            };
            answers.push(Answer { sent, took: due.elapsed(), revision });
            due += interval;
        }
        Ok(answers)
    }
}

/// The revision that a whole answer names; `None`: there is more to come.
fn whole(seen: &[u8]) -> anyhow::Result<Option<u64>> {
    let text = std::str::from_utf8(seen)?;
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    ensure!(head.starts_with("HTTP/1.1 200"), "answered {:?}", head.lines().next());
    if body.len() < 2 {
        return Ok(None);
    }
    let revision = head.lines().find_map(|line| line.strip_prefix("x-revision: "));
    Ok(Some(revision.map(str::parse).transpose()?.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_its_revision_once_it_is_whole() {
        let answer = b"HTTP/1.1 200 OK\r\nx-revision: 7\r\ncontent-length: 2\r\n\r\nok";
        assert_eq!(whole(answer).unwrap(), Some(7));
        assert_eq!(whole(&answer[..answer.len() - 1]).unwrap(), None);
        assert!(whole(b"HTTP/1.1 403 Forbidden\r\n\r\nno").is_err());
    }
}
