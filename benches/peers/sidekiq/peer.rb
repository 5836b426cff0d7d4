# Sidekiq's side of `cargo xtask peers`: enqueues jobs, then starts a worker and waits until it has
# run the last one.
#
# Arguments: URL, number of jobs, bytes of a payload, `bulk` or `single`, slots or `default`.

require "sidekiq"
require "sidekiq/cli"

URL, JOBS, PAYLOAD_BYTES, MODE, SLOTS = ARGV[0], Integer(ARGV[1]), Integer(ARGV[2]), ARGV[3], ARGV[4]
PAYLOAD = "x" * (PAYLOAD_BYTES - 2) # JSON adds two quotes

class Work
  include Sidekiq::Worker

  def perform(_payload)
  end
end

# Counts the jobs that have ended. After the last one it prints the figures and ends the program.
class CountJobs
  @@ended = 0
  @@lock = Mutex.new

  def call(*)
    yield
    return if @@lock.synchronize { @@ended += 1 } < JOBS

    puts "enqueue_s=#{$enqueue_s} drain_s=#{now - $drain_started} version=#{Sidekiq::VERSION}"
    $stdout.flush
    exit!(0)
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

cli = Sidekiq::CLI.instance
cli.parse(["-r", __FILE__] + (SLOTS == "default" ? [] : ["-c", SLOTS]))
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.server_middleware { |chain| chain.add CountJobs }
  config.logger.level = Logger::WARN
end
# Sidekiq 6 beside redis-rb 4.8, as in Debian 12, would print a warning for every job.
Redis.silence_deprecations = true if defined?(Redis)

started = now
case MODE
when "bulk" then Work.perform_bulk(Array.new(JOBS) { [PAYLOAD] })
else JOBS.times { Work.perform_async(PAYLOAD) }
end
$enqueue_s = now - started

$drain_started = now
cli.run(boot_app: false)
