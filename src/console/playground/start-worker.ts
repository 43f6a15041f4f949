/** Starts the web worker of the playground. The build replaces this module, because it decides where the worker's code is. */
export const startWorker = (): Worker => {
  throw new Error("startWorker exists only in a build of the console");
};
