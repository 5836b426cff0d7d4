use fairlane_engine::redis::*;
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    RedisEngine::connect(&url, RedisOptions { prefix: "zz:".into(), edit_script: Some(|stem, s| { std::fs::write(format!("/tmp/proto/{stem}.lua"), s).unwrap(); s.to_owned() }), ..Default::default() }).await.unwrap();
}
