import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Watch, watchFiles } from "../../src/cli/live-configuration.ts";

let folder = "";
let watch: Watch | null = null;
const changed = vi.fn<() => void>();
const file = (name: string): string => join(folder, name);

beforeEach(() => {
  vi.useFakeTimers();
  changed.mockReset();
  folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
  writeFileSync(file("a"), "1");
  watch = watchFiles([file("a"), file("b")], changed);
});

afterEach(() => {
  watch?.close();
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** Long enough for a poll to see a change and for a quiet second after it. */
const settle = (): unknown => vi.advanceTimersByTime(1_400);

describe("a watched file", () => {
  it("a file is reported once after its contents have changed", () => {
    settle();
    expect(changed).toHaveBeenCalledTimes(0);
    writeFileSync(file("a"), "2");
    settle();
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a file is reported when another file replaces it under its name", () => {
    writeFileSync(file("a.tmp"), "2");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a.tmp"), "3");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is reported when it is deleted and when it is created again", () => {
    rmSync(file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is reported when it is created and when it is emptied", () => {
    writeFileSync(file("b"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is not reported when only its times change or the same contents are written", () => {
    utimesSync(file("a"), 1, 1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("several quick changes are reported once, a second after the last", () => {
    for (let change = 0; change < 10; change++) {
      writeFileSync(file("a"), `change ${change}`);
      vi.advanceTimersByTime(900);
    }
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a change is not reported before a second has passed, in which counters are stored", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(1_000);
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a change that is reverted before a poll is not reported", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(400);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("a change after the watch is closed is not reported", () => {
    watch?.close();
    writeFileSync(file("a"), "2");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });
});
