//! What must hold for a data directory on a disk that is full.

use super::*;

/// A file system of its own, where this user may mount one.
pub struct Mounted(pub TempDir);

impl Mounted {
    pub fn small(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        mount.is_ok_and(|ended| ended.status.success()).then_some(Self(folder))
    }

    pub fn remount(&self, option: &str) {
        let mount = Command::new("mount").args(["-o", option]).arg(self.0.path()).status();
        assert!(mount.unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// Jobs of 100 KiB until the disk is full; what was acknowledged, and the refusal.
async fn fill_disk(engine: &EmbeddedEngine) -> (usize, EngineError) {
    let mut created = 0;
    for mut job in jobs(2000) {
        job.payload = vec![b'x'; 100 * 1024].into();
        match seam(engine).call(Enqueue { jobs: vec![job] }).await {
            Ok(_) => created += 1,
            Err(error) => return (created, error),
        }
    }
    panic!("200 MB fitted in");
}

#[tokio::test]
async fn a_full_disk_refuses_new_jobs_keeps_all_and_can_be_drained() {
    let Some(mounted) = Mounted::small(24) else {
        return eprintln!("not run: this user may not mount a small disk");
    };
    let options = DirectoryOptions { reserve_bytes: 8 << 20, ..Default::default() };
    let engine = EmbeddedEngine::open(mounted.0.path(), options).unwrap();
    let (created, error) = fill_disk(&engine).await;
    assert!(
        matches!(&error, EngineError::Refused { reason } if reason.contains("no space is left")),
        "{error}"
    );
    assert!(created > 50);
    let refused = engine.admin().check_writes().await.unwrap_err();
    assert!(refused.to_string().contains("no space is left"), "{refused}");
    let space = engine.admin().space().await.unwrap().expect("a directory has a bound");
    assert!(space.used_bytes > 8 << 20 && space.limit_bytes <= 24 << 20, "{space:?}");
    assert_eq!(backlog(&engine).await, created as u64);
    engine.check().await.unwrap().unwrap();
    for request in 1..=created as u64 {
        let leased = lease(&engine, request, 1).await.unwrap();
        assert_eq!(leased.len(), 1);
        assert_eq!(succeed(&engine, leased).await.unwrap().verdicts, [Verdict::Applied]);
    }
    let refused = seam(&engine).call(Enqueue { jobs: jobs(3000).split_off(2999) }).await;
    assert!(matches!(refused, Err(EngineError::Refused { .. })), "{refused:?}");
    mounted.remount("remount,size=64m");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while seam(&engine).call(Enqueue { jobs: jobs(3000).split_off(2999) }).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "space is back and jobs are refused");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(engine.admin().check_writes().await, Ok(()), "new jobs are taken again");
    assert_eq!(std::fs::metadata(mounted.0.path().join("reserve")).unwrap().len(), 8 << 20);
    drop(engine);
    let engine = open(mounted.0.path()).unwrap();
    engine.check().await.unwrap().unwrap();
    assert_eq!(backlog(&engine).await, 1);
}

#[tokio::test]
async fn a_full_disk_without_a_reserve_refuses_every_change_until_there_is_space() {
    let Some(mounted) = Mounted::small(8) else {
        return eprintln!("not run: this user may not mount a small disk");
    };
    let engine = open(mounted.0.path()).unwrap();
    let (created, _) = fill_disk(&engine).await;
    std::fs::write(mounted.0.path().join("rest"), vec![0; 8 << 20]).unwrap_err();
    assert_eq!(backlog(&engine).await, created as u64);
    let mut request = 0;
    let refused = loop {
        request += 1;
        match lease(&engine, request, 1).await {
            Ok(_) => assert!(request < 10_000, "a full disk takes changes for ever"),
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("no space is left"), "{refused}");
    mounted.remount("remount,size=64m");
    assert!(lease(&engine, request, 1).await.is_ok());
    engine.check().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_start_on_a_full_disk_refuses_new_jobs_and_can_be_drained() {
    let Some(mounted) = Mounted::small(24) else {
        return eprintln!("not run: this user may not mount a small disk");
    };
    let options = || DirectoryOptions { reserve_bytes: 8 << 20, ..Default::default() };
    let engine = EmbeddedEngine::open(mounted.0.path(), options()).unwrap();
    let (created, _) = fill_disk(&engine).await;
    drop(engine);
    // Closing has released the space of the log; another file takes all but a part of the reserve.
    let space = super::super::space(mounted.0.path()).unwrap();
    let free = (space.limit_bytes - space.used_bytes) as usize;
    std::fs::write(mounted.0.path().join("rest"), vec![0; free.saturating_sub(6 << 20)]).unwrap();
    let engine = EmbeddedEngine::open(mounted.0.path(), options()).unwrap();
    for new in jobs(3000).split_off(2900) {
        let refused = seam(&engine).call(Enqueue { jobs: vec![new] }).await;
        assert!(matches!(refused, Err(EngineError::Refused { .. })), "{refused:?}");
    }
    assert!(engine.admin().check_writes().await.is_err());
    for request in 1..=created as u64 {
        let leased = lease(&engine, request, 1).await.unwrap();
        assert_eq!(succeed(&engine, leased).await.unwrap().verdicts, [Verdict::Applied]);
    }
    mounted.remount("remount,size=64m");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while engine.admin().check_writes().await.is_err() {
        assert!(std::time::Instant::now() < deadline, "space is back and jobs are refused");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(std::fs::metadata(mounted.0.path().join("reserve")).unwrap().len(), 8 << 20);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_for_lack_of_space_is_waited_for() {
    let Some(mounted) = Mounted::small(1) else {
        return eprintln!("not run: this user may not mount a small disk");
    };
    let folder = mounted.0.path().join("queue");
    std::fs::create_dir(&folder).unwrap();
    let rest = mounted.0.path().join("rest");
    std::fs::write(&rest, vec![0; 2 << 20]).unwrap_err();
    let refused = open(&folder).unwrap_err();
    assert!(refused.is_retryable() && refused.to_string().contains("no space is left"), "{refused}");
    std::fs::remove_file(rest).unwrap();
    open(&folder).unwrap();
}
