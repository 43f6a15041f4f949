/** One alarm serves all tasks, whatever fails. */
import { describe, expect, it, vi } from "vitest";
import { Scheduler, type Task } from "../../../src/control/object/scheduler.ts";
import { startMs, TestClock } from "../../fakes/isolate.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";

/** A task that is due at certain times after the start. */
class TestTask implements Task {
  readonly due: number[];
  readonly runs: number[] = [];
  error: Error | null = null;

  constructor(...afterMs: number[]) {
    this.due = afterMs.map((ms) => startMs + ms);
  }

  dueAtMs(): number | null {
    return this.due[0] ?? null;
  }

  run(nowMs: number): void {
    if (this.error !== null) throw this.error;
    this.due.shift();
    this.runs.push(nowMs - startMs);
  }
}

function schedulerOf(...tasks: Task[]) {
  const [storage, clock] = [new MemorySql(), new TestClock()];
  const scheduler = new Scheduler(storage, clock, tasks);
  const passTo = async (afterMs: number): Promise<void> => {
    clock.nowMs = startMs + afterMs;
    storage.alarmAtMs = null;
    await scheduler.alarm();
  };
  const alarmMs = (): number | null => (storage.alarmAtMs === null ? null : storage.alarmAtMs - startMs);
  return { storage, clock, scheduler, passTo, alarmMs };
}

describe("the scheduler of the alarm", () => {
  it("the alarm fires when the earliest task is due, and runs only tasks that are due", async () => {
    const [early, late] = [new TestTask(1_000, 5_000), new TestTask(3_000)];
    const { scheduler, passTo, alarmMs } = schedulerOf(early, late);
    await scheduler.ensure();
    expect(alarmMs()).toBe(1_000);
    await passTo(1_000);
    expect([early.runs, late.runs, alarmMs()]).toEqual([[1_000], [], 3_000]);
    await passTo(3_000);
    expect([early.runs, late.runs, alarmMs()]).toEqual([[1_000], [3_000], 5_000]);
    await passTo(5_000);
    expect(alarmMs()).toBeNull();
  });

  it("the alarm is moved only to an earlier instant", async () => {
    const task = new TestTask(5_000);
    const { storage, scheduler, alarmMs } = schedulerOf(task);
    const set = vi.spyOn(storage, "setAlarm");
    await scheduler.ensure();
    task.due.push(9_000);
    await scheduler.ensure();
    expect(set).toHaveBeenCalledTimes(1);
    task.due.unshift(startMs + 2_000);
    await scheduler.ensure();
    expect(alarmMs()).toBe(2_000);
  });

  it("overdue work gets an alarm in the next millisecond", async () => {
    const { scheduler, alarmMs } = schedulerOf(new TestTask(-5_000));
    await scheduler.ensure();
    expect(alarmMs()).toBe(1);
  });

  it("a task that fails runs again after a minute, and does not stop the others", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue(undefined);
    const [broken, other] = [new TestTask(0), new TestTask(0)];
    const { passTo, alarmMs } = schedulerOf(broken, other);
    broken.error = new Error("storage operation failed");
    await passTo(0);
    expect([other.runs, alarmMs()]).toEqual([[0], 60_000]);
    expect(log.mock.calls.join("\n")).toContain("control-plane-failed");
    log.mockRestore();
    broken.error = null;
    await passTo(60_000);
    expect(broken.runs).toEqual([60_000]);
  });

  it("an alarm that could not be set is set by the next call of the scheduler", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue(undefined);
    const { storage, scheduler, alarmMs } = schedulerOf(new TestTask(1_000));
    const set = vi.spyOn(storage, "setAlarm").mockRejectedValueOnce(new Error("lost"));
    await scheduler.ensure();
    expect([alarmMs(), log.mock.calls.join("\n")]).toEqual([null, expect.stringContaining("alarm-failed")]);
    log.mockRestore();
    await scheduler.ensure();
    expect([alarmMs(), set.mock.calls.length]).toEqual([1_000, 2]);
  });

  it("an alarm that is a minute overdue counts as lost and is set again", async () => {
    const { storage, clock, scheduler, alarmMs } = schedulerOf(new TestTask(1_000));
    await scheduler.ensure();
    storage.alarmAtMs = null;
    clock.nowMs = startMs + 61_000;
    await scheduler.ensure();
    expect(alarmMs()).toBe(61_001);
  });
});
