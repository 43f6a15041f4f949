/** Starts the replay worker. The build replaces this module, because it decides where the worker's code is. */
export const startReplayWorker = (): Worker => {
  throw new Error("startReplayWorker exists only in a build of the console");
};
