"""CLITE (Patel and Tiwari, HPCA 2020): its figures from worker threads on hyperthreads."""
