/** A bash that keeps its variables between scripts, as the terminal of a reader does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { killWithParent } from "../tools/workerd-process.ts";

export interface Shell {
  /**
   * Runs a script until its first failing command, with an empty standard input.
   * @throws Error if a command fails, or if the script takes too long, after which no other script can run
   */
  readonly run: (script: string) => Promise<string>;
  readonly close: () => Promise<void>;
}

const timeoutMs = 30_000;

export function startShell(folder: string, env: Readonly<Record<string, string>>): Shell {
  const { PATH = "" } = process.env;
  const child = spawn("bash", ["--noprofile", "--norc", "-eu"], {
    cwd: folder,
    env: { PATH, HOME: folder, LANG: "C.UTF-8", ...env } as object as NodeJS.ProcessEnv,
    stdio: ["pipe", "ignore", "ignore", "pipe"],
  });
  killWithParent(child);
  const ended = once(child, "exit");
  const finished = createInterface({ input: child.stdio[3] as Readable });
  const file = (name: string): string => join(folder, name);
  return {
    run: async (script) => {
      for (const name of ["script", "output", "errors"]) writeFileSync(file(name), "");
      writeFileSync(file("script"), script);
      const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
      const end = Promise.race([once(finished, "line"), ended.then(() => null)]);
      child.stdin?.write(". ./script < /dev/null > output 2> errors 3>&-; echo finished >&3\n");
      const line = await end;
      clearTimeout(timer);
      const output = readFileSync(file("output"), "utf8");
      if (line !== null) return output;
      const signal = child.signalCode === null ? "" : ` (${child.signalCode})`;
      throw new Error(`failed${signal}:\n${output}${readFileSync(file("errors"), "utf8")}`);
    },
    close: async () => {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await ended;
    },
  };
}
