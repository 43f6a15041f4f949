/** Prometheus's own checker, where it is installed. */
import { spawnSync } from "node:child_process";

/** The name of the command; null when it is not installed. */
export const promtool: string | null = spawnSync("promtool", ["--version"]).status === 0 ? "promtool" : null;
