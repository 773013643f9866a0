//! A database that speaks first (MariaDB, with its own client), without any setting of its port.

use super::mesh::{Web, client, only_client};
use super::*;
use policy_core::Protocol;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A running server. Ends with this.
struct Database {
    address: SocketAddr,
    server: Child,
    _folder: TempDir,
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A user who has to sign in with a password.
const USER: &str = "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret';\n\
                    CREATE DATABASE shop;\n\
                    GRANT ALL ON shop.* TO app@'127.0.0.1';\n";

/// Rows in both directions, of more bytes than any buffer on the way has.
const CONVERSATION: &str = "\
CREATE TABLE orders (id INT PRIMARY KEY, note LONGTEXT);
INSERT INTO orders SELECT seq, REPEAT(MD5(seq), 20000) FROM seq_1_to_8;
BEGIN; INSERT INTO orders VALUES (9, 'undone'); ROLLBACK;
SELECT CURRENT_USER(), COUNT(*) FROM orders;
SELECT note FROM orders ORDER BY id;
DROP TABLE orders;
";

/// A command that does not read the settings of this machine, and that may run as root.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-defaults").stdin(Stdio::null());
    command
}

fn is_installed() -> bool {
    ["mariadbd", "mariadb-install-db", "mariadb"].into_iter().all(|program| {
        let found = |folder: &Path| folder.join(program).is_file();
        // Debian has the server where ordinary users have no path to.
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| found(&folder)) || found(Path::new("/usr/sbin"))
    })
}

fn server_program() -> &'static str {
    if Path::new("/usr/sbin/mariadbd").is_file() { "/usr/sbin/mariadbd" } else { "mariadbd" }
}

impl Database {
    async fn start() -> Option<Self> {
        if !is_installed() {
            policy_testkit::skip("mariadb-server-core and mariadb-client-core");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let data = format!("--datadir={}", folder.path().join("data").display());
        let mut install = command("mariadb-install-db");
        install.args(["--user=root", "--skip-test-db", &data]);
        let installed = tokio::task::spawn_blocking(move || install.output()).await.unwrap();
        let installed = installed.unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stdout));
        let init = folder.path().join("init.sql");
        std::fs::write(&init, USER).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let mut start = command(server_program());
        start.args(["--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve", &data]);
        start.arg(format!("--port={}", address.port()));
        start.arg(format!("--socket={}", folder.path().join("socket").display()));
        start.arg(format!("--init-file={}", init.display()));
        let server = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let database = Self { address, server, _folder: folder };
        database.wait().await;
        Some(database)
    }

    async fn wait(&self) {
        let begun = Instant::now();
        while !talk(self.address, "SELECT 1").await.status.success() {
            assert!(begun.elapsed() < PATIENCE, "MariaDB does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What the database's own client says of these statements at an address.
async fn talk(address: SocketAddr, statements: &str) -> Output {
    let mut client = command("mariadb");
    client.args(["--protocol=tcp", "--user=app", "--password=secret", "--batch"]);
    client.args(["--database=shop", "--connect-timeout=10", "--execute", statements]);
    client.arg(format!("--host={}", address.ip())).arg(format!("--port={}", address.port()));
    tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap()
}

/// The shortest time of some connections until the server's first bytes: a busy machine delays single
/// ones.
async fn greeted(address: SocketAddr) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut header = [0; 5];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut header)).await.unwrap().unwrap();
        shortest = shortest.min(begun.elapsed());
        // Length, sequence number 0, version 10 of the protocol.
        assert_eq!(header[3..], [0, 10]);
    }
    shortest
}

#[tokio::test]
async fn a_database_that_speaks_first_is_talked_to_as_without_sidecars() {
    let Some(database) = Database::start().await else { return };
    let expected = talk(database.address, CONVERSATION).await;
    let lines = String::from_utf8_lossy(&expected.stdout).lines().count();
    assert_eq!((expected.status.success(), lines), (true, 11), "two headings, a count, eight rows");
    let authority = Authority::new();
    let hour = Duration::from_secs(3600);
    let detect = only_client(Protocol::Detect { timeout: hour });
    let plaintext = Outbound::to(SERVICE).await;
    plaintext.answer(service(&[plain(database.address)]));
    let web = Web::new(&authority, detect.clone(), database.address).await;
    let mesh = client(&authority).await;
    mesh.answer(service(&[web.endpoint()]));
    for (way, outbound) in [("plaintext", &plaintext), ("mesh", &mesh)] {
        let found = talk(outbound.address, CONVERSATION).await;
        assert!(found == expected, "{way}: {}", String::from_utf8_lossy(&found.stderr));
        let time = greeted(outbound.address).await;
        assert!(time < Duration::from_millis(50), "{way}: {time:?}");
    }
    let strangers = Outbound::to(SERVICE).await;
    strangers.answer(service(&[plain(web.redirected)]));
    assert!(!talk(strangers.address, "SELECT 1").await.status.success(), "without an identity");
}
