/** The processor time of processes, as Linux reports it. */
import { readFileSync } from "node:fs";

/** Linux reports times in ticks of 10 ms to programs. */
const tickMs = 10;

/** The time that these processes have used so far, in user mode and in the kernel; null on systems without /proc. */
export function cpuMsOf(pids: readonly number[]): number | null {
  try {
    return pids
      .map((pid) => readFileSync(`/proc/${pid}/stat`, "utf8"))
      .reduce((sum, stat) => sum + tickMs * ticksOf(stat), 0);
  } catch {
    return null;
  }
}

/** The sum of `utime` and `stime`, fields 14 and 15. The second field is a name that may contain spaces. */
export function ticksOf(stat: string): number {
  const [utime, stime] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return Number(utime) + Number(stime);
}

/** Microseconds per request in all these turns; null if the processor time was not reported. */
export function cpuUsPerRequest(
  turns: readonly { readonly cpuMs: number | null; readonly requests: number }[],
): number | null {
  const reported = turns.filter(({ cpuMs }) => cpuMs !== null);
  const requests = reported.reduce((sum, turn) => sum + turn.requests, 0);
  const ms = reported.reduce((sum, { cpuMs }) => sum + (cpuMs ?? 0), 0);
  return requests === 0 ? null : (1_000 * ms) / requests;
}
